"""Model families as data: which tensors a family has, their shapes, and what sets it apart.

A new family is a new row here as long as its mathematics is something the engine already does.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Literal

__all__ = ["FAMILIES", "Family", "Pairing", "Role", "TensorRule"]

# How rotary embedding pairs the elements of a head: (2i, 2i+1), or (i, i + dims/2).
Pairing = Literal["norm", "neox"]


class Role(Enum):
    EMBEDDING = "embedding"
    LINEAR = "linear"
    NORM = "norm"
    ROPE_FACTORS = "rope factors"


@dataclass(frozen=True, slots=True)
class TensorRule:
    """A tensor a family has. ``{layer}`` in ``pattern`` stands for each layer's number.

    ``shape`` names dimensions of the architecture, fastest first.
    """

    pattern: str
    role: Role
    shape: tuple[str, ...]
    optional: bool = False

    @property
    def per_layer(self) -> bool:
        return "{layer}" in self.pattern


@dataclass(frozen=True, slots=True)
class Family:
    """What distinguishes a family; ``refused_keys`` are metadata that would change its mathematics."""

    name: str
    pairing: Pairing
    tensors: tuple[TensorRule, ...]
    refused_keys: tuple[str, ...] = ()


_LLAMA_TENSORS = (
    TensorRule("token_embd.weight", Role.EMBEDDING, ("embedding", "vocab_size")),
    TensorRule("rope_freqs.weight", Role.ROPE_FACTORS, ("rope_pairs",), optional=True),
    TensorRule("blk.{layer}.attn_norm.weight", Role.NORM, ("embedding",)),
    TensorRule("blk.{layer}.attn_k.weight", Role.LINEAR, ("embedding", "kv_width")),
    TensorRule("blk.{layer}.attn_output.weight", Role.LINEAR, ("q_width", "embedding")),
    TensorRule("blk.{layer}.attn_q.weight", Role.LINEAR, ("embedding", "q_width")),
    TensorRule("blk.{layer}.attn_v.weight", Role.LINEAR, ("embedding", "kv_width")),
    TensorRule("blk.{layer}.ffn_norm.weight", Role.NORM, ("embedding",)),
    TensorRule("blk.{layer}.ffn_down.weight", Role.LINEAR, ("feed_forward", "embedding")),
    TensorRule("blk.{layer}.ffn_gate.weight", Role.LINEAR, ("embedding", "feed_forward")),
    TensorRule("blk.{layer}.ffn_up.weight", Role.LINEAR, ("embedding", "feed_forward")),
    TensorRule("output_norm.weight", Role.NORM, ("embedding",)),
    TensorRule("output.weight", Role.LINEAR, ("embedding", "vocab_size"), optional=True),
)

FAMILIES: dict[str, Family] = {
    family.name: family
    for family in (
        Family(
            name="llama",
            pairing="norm",
            tensors=_LLAMA_TENSORS,
            refused_keys=(
                "expert_count",
                "attention.clamp_kqv",
                "logit_scale",
                "residual_scale",
                "embedding_scale",
            ),
        ),
    )
}
