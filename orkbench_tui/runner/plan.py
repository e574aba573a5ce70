"""A model as an ordered list of operations on named buffers: data, the same for every way to run it.

A buffer holds rows (one a token) of float32. ``Project`` is the only operation that multiplies by a
large weight, so it is the only one that differs between the CPU, the NPU and the float path.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from orkbench_tui.native.steps import GateFunction
from orkbench_tui.runner.models.architecture import HEAD_NAME, Architecture

__all__ = [
    "Attend",
    "Gate",
    "Norm",
    "Operation",
    "Product",
    "Project",
    "Remember",
    "Rotate",
    "buffer_widths",
    "head_operations",
    "layer_operations",
]


@dataclass(frozen=True, slots=True)
class Norm:
    """RMS norm of ``source`` into ``target`` (added to it with ``accumulate``); each of ``groups`` parts on its own."""

    source: str
    weight: str
    target: str
    groups: int = 1
    accumulate: bool = False


@dataclass(frozen=True, slots=True)
class Product:
    """One weight of a ``Project``: its result replaces ``target`` or is added to it."""

    weight: str
    target: str
    accumulate: bool = False
    bias: str | None = None


@dataclass(frozen=True, slots=True)
class Project:
    """``source`` times each weight; they share the (quantized) source, so they run as one group."""

    source: str
    products: tuple[Product, ...]


@dataclass(frozen=True, slots=True)
class Rotate:
    """Rotary embedding of every head in ``values``, in place."""

    values: str
    heads: int


@dataclass(frozen=True, slots=True)
class Remember:
    """Appends ``keys`` and ``values`` to a layer's cache."""

    layer: int
    keys: str
    values: str


@dataclass(frozen=True, slots=True)
class Attend:
    """Causal attention of ``queries`` over a layer's cache; window 0 is unlimited."""

    layer: int
    queries: str
    target: str
    window: int = 0


@dataclass(frozen=True, slots=True)
class Gate:
    """``function(gate) * up`` into ``target``."""

    gate: str
    up: str
    target: str
    function: GateFunction


Operation: TypeAlias = Norm | Project | Rotate | Remember | Attend | Gate


def buffer_widths(architecture: Architecture) -> dict[str, int]:
    """Values a row of each buffer holds. ``hidden`` is where embeddings enter; ``logits`` is the result."""
    return {
        "hidden": architecture.embedding,
        "normed": architecture.embedding,
        "query": architecture.q_width,
        "key": architecture.kv_width,
        "value": architecture.kv_width,
        "attended": architecture.q_width,
        "gate": architecture.feed_forward,
        "up": architecture.feed_forward,
        "gated": architecture.feed_forward,
        "logits": architecture.vocab_size,
    }


def layer_operations(architecture: Architecture, layer: int) -> tuple[Operation, ...]:
    """One decoder layer: ``hidden`` in, ``hidden`` out."""
    prefix = f"blk.{layer}"
    return (
        Norm("hidden", f"{prefix}.attn_norm.weight", "normed"),
        Project(
            "normed",
            (
                Product(f"{prefix}.attn_q.weight", "query"),
                Product(f"{prefix}.attn_k.weight", "key"),
                Product(f"{prefix}.attn_v.weight", "value"),
            ),
        ),
        Rotate("query", architecture.heads),
        Rotate("key", architecture.kv_heads),
        Remember(layer, "key", "value"),
        Attend(layer, "query", "attended"),
        Project("attended", (Product(f"{prefix}.attn_output.weight", "hidden", accumulate=True),)),
        Norm("hidden", f"{prefix}.ffn_norm.weight", "normed"),
        Project(
            "normed",
            (Product(f"{prefix}.ffn_gate.weight", "gate"), Product(f"{prefix}.ffn_up.weight", "up")),
        ),
        Gate("gate", "up", "gated", "silu"),
        Project("gated", (Product(f"{prefix}.ffn_down.weight", "hidden", accumulate=True),)),
    )


def head_operations(architecture: Architecture) -> tuple[Operation, ...]:
    """``hidden`` to ``logits``."""
    return (
        Norm("hidden", "output_norm.weight", "normed"),
        Project("normed", (Product(HEAD_NAME, "logits"),)),
    )
