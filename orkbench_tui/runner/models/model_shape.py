"""An architecture as the timing model sees it: sizes of its matmuls."""

from __future__ import annotations

from collections import Counter

from orkbench_tui.driver.timing.shapes import LinearShape, ModelShape
from orkbench_tui.runner.models.architecture import Architecture

__all__ = ["model_shape"]


def model_shape(architecture: Architecture) -> ModelShape:
    """Sizes of the first layer's matmuls stand for every layer: the families known here have equal layers."""
    counts: Counter[tuple[int, int, bool]] = Counter(
        (linear.K, linear.N, linear.index is not None) for linear in architecture.linears(0)
    )
    used = architecture.moe.used if architecture.moe else 0
    linears = tuple(
        LinearShape(K, N, count, count * used // architecture.experts if expert else 0)
        for (K, N, expert), count in counts.items()
    )
    return ModelShape(
        name=architecture.name,
        layers=architecture.layers,
        embedding=architecture.embedding,
        attention_width=architecture.q_width,
        vocabulary=architecture.vocab_size,
        linears=linears,
    )
