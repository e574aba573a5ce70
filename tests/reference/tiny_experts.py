"""A tiny seeded mixture of experts whose widths are whole 32, so that every expert's matrix can have 4 bits."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Literal

from tests.reference.tiny_families import TINY_FAMILIES, family_weights
from tests.reference.tiny_models import write_tiny_llama

__all__ = ["WHOLE_TILES", "write_tiny_experts"]

_TINY = TINY_FAMILIES["qwen3moe"]
WHOLE_TILES = replace(_TINY, shape=replace(_TINY.shape, embedding=128), expert_feed_forward=96)


def write_tiny_experts(
    path: Path,
    *,
    seed: int = 6,
    quant: Literal["F32", "F16", "Q8_0", "Q4_0"] = "F32",
    feed_forward: int = WHOLE_TILES.expert_feed_forward,
) -> Path:
    """Write the model and return ``path``. A ``feed_forward`` of no whole 32 leaves down projections in 8 bits."""
    family = replace(WHOLE_TILES, expert_feed_forward=feed_forward)
    keys = {
        "attention.key_length": family.head_size,
        "attention.value_length": family.head_size,
        "rope.dimension_count": family.head_size,
        "expert_count": family.experts,
        "expert_feed_forward_length": family.expert_feed_forward,
        **family.metadata,
    }
    return write_tiny_llama(
        path,
        shape=family.shape,
        quant=quant,
        architecture="qwen3moe",
        metadata={f"qwen3moe.{key}": value for key, value in keys.items()},
        weights=family_weights(family, seed),
    )
