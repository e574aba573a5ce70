"""A model as an ordered list of operations on named buffers: data, the same for every way to run it.

A buffer holds rows (one a token) of float32. ``Project`` is the only operation that multiplies by a
large weight, so it is the only one that differs between the CPU, the NPU and the float path.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from orkbench_tui.native.steps import GateFunction
from orkbench_tui.runner.models.architecture import HEAD_NAME, Architecture
from orkbench_tui.runner.scan_states import SCAN_CHUNK

__all__ = [
    "Attend",
    "Cap",
    "Gate",
    "Mix",
    "Norm",
    "Operation",
    "Product",
    "Project",
    "Remember",
    "Rotate",
    "Scan",
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
    """One weight of a ``Project``: its result times ``scale``, and ``bias``, replace ``target`` or are added to it."""

    weight: str
    target: str
    accumulate: bool = False
    bias: str | None = None
    scale: float = 1.0


@dataclass(frozen=True, slots=True)
class Project:
    """``source`` times each weight; they share the (quantized) source, so they run as one group."""

    source: str
    products: tuple[Product, ...]


@dataclass(frozen=True, slots=True)
class Rotate:
    """Rotary embedding of every head in ``values``, in place, as ``layer`` turns them."""

    layer: int
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
class Scan:
    """The state space mixer of ``layer``: convolution of ``source`` into ``convolved``, scan, skip and gate.

    It reads and moves the layer's state, so rows must come in order and each once. ``products`` is room for
    what rows of a chunk see of each other.
    """

    layer: int
    source: str
    convolved: str
    products: str
    target: str


@dataclass(frozen=True, slots=True)
class Gate:
    """``function(gate) * up`` into ``target``."""

    gate: str
    up: str
    target: str
    function: GateFunction


@dataclass(frozen=True, slots=True)
class Mix:
    """A feed-forward of experts: the best few for each row of ``source`` by ``router``, their sum added to ``target``.

    ``gate``, ``up`` and ``down`` are the tensors that hold one weight for each expert.
    """

    source: str
    router: str
    gate: str
    up: str
    down: str
    target: str
    function: GateFunction


@dataclass(frozen=True, slots=True)
class Cap:
    """``values = limit * tanh(values / limit)``, in place."""

    values: str
    limit: float


Operation: TypeAlias = Norm | Project | Rotate | Remember | Attend | Scan | Gate | Mix | Cap


def buffer_widths(architecture: Architecture) -> dict[str, int]:
    """Values a row of each buffer holds. ``hidden`` is where embeddings enter; ``logits`` is the result."""
    scan = architecture.scan
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
        "branch": architecture.embedding,
        "mixed": scan.mixed if scan else 0,
        "convolved": scan.convolved if scan else 0,
        "products": scan.groups * SCAN_CHUNK if scan else 0,
        "scanned": scan.inner if scan else 0,
        "logits": architecture.vocab_size,
    }


def layer_operations(architecture: Architecture, layer: int) -> tuple[Operation, ...]:
    """One decoder layer: ``hidden`` in, ``hidden`` out. What the model has no tensor for is left out."""
    mixer = _scan if layer in architecture.scanning else _attention
    has_feed_forward = architecture.feed_forward or architecture.moe
    feed_forward = _feed_forward(architecture, layer) if has_feed_forward else ()
    return (*mixer(architecture, layer), *feed_forward)


def head_operations(architecture: Architecture) -> tuple[Operation, ...]:
    """``hidden`` to ``logits``."""
    cap = (Cap("logits", architecture.logit_cap),) if architecture.logit_cap else ()
    return (
        Norm("hidden", "output_norm.weight", "normed"),
        Project("normed", (Product(HEAD_NAME, "logits", scale=architecture.logit_scale),)),
        *cap,
    )


def _attention(architecture: Architecture, layer: int) -> Iterator[Operation]:
    prefix = f"blk.{layer}"
    source = yield from _front(architecture, layer, "attn_norm.weight")
    yield Project(
        source,
        tuple(
            Product(
                f"{prefix}.attn_{short}.weight", buffer, bias=architecture.tensor(layer, f"attn_{short}.bias")
            )
            for short, buffer in (("q", "query"), ("k", "key"), ("v", "value"))
        ),
    )
    heads = (("q", "query", architecture.heads), ("k", "key", architecture.kv_heads))
    for short, buffer, count in heads:
        weight = architecture.tensor(layer, f"attn_{short}_norm.weight")
        if weight is not None:
            groups = architecture.norm_groups(f"attn_{short}_norm.weight", count * architecture.head_dim)
            yield Norm(buffer, weight, buffer, groups=groups)
    if layer not in architecture.unrotated:
        for _, buffer, count in heads:
            yield Rotate(layer, buffer, count)
    yield Remember(layer, "key", "value")
    yield Attend(layer, "query", "attended", architecture.windows[layer])
    yield from _back(architecture, layer, "attended", "attn_output.weight", "post_attention_norm.weight")


def _scan(architecture: Architecture, layer: int) -> Iterator[Operation]:
    groups = architecture.scan.groups if architecture.scan else 1
    prefix = f"blk.{layer}"
    yield Norm("hidden", f"{prefix}.attn_norm.weight", "normed")
    yield Project("normed", (Product(f"{prefix}.ssm_in.weight", "mixed"),))
    yield Scan(layer, "mixed", "convolved", "products", "scanned")
    yield Norm("scanned", f"{prefix}.ssm_norm.weight", "scanned", groups=groups)
    yield from _back(architecture, layer, "scanned", "ssm_out.weight", "post_attention_norm.weight")


def _feed_forward(architecture: Architecture, layer: int) -> Iterator[Operation]:
    prefix = f"blk.{layer}"
    source = yield from _front(architecture, layer, "ffn_norm.weight")
    if architecture.moe is not None:
        gate, up, down = (f"{prefix}.ffn_{part}_exps.weight" for part in ("gate", "up", "down"))
        router = f"{prefix}.ffn_gate_inp.weight"
        yield Mix(source, router, gate, up, down, "hidden", architecture.gate)
        return
    yield Project(
        source,
        (Product(f"{prefix}.ffn_gate.weight", "gate"), Product(f"{prefix}.ffn_up.weight", "up")),
    )
    yield Gate("gate", "up", "gated", architecture.gate)
    yield from _back(architecture, layer, "gated", "ffn_down.weight", "post_ffw_norm.weight")


def _front(architecture: Architecture, layer: int, norm: str) -> Generator[Operation, None, str]:
    """The buffer a part of a layer reads: ``hidden``, through a norm of its own where the model has one."""
    weight = architecture.tensor(layer, norm)
    if weight is None:
        return "hidden"
    yield Norm("hidden", weight, "normed")
    return "normed"


def _back(architecture: Architecture, layer: int, source: str, weight: str, norm: str) -> Iterator[Operation]:
    """``source`` times a weight, added to ``hidden``, through a norm of its own where the model has one."""
    post_norm = architecture.tensor(layer, norm)
    name = f"blk.{layer}.{weight}"
    if post_norm is None:
        scale = architecture.residual_scale
        yield Project(source, (Product(name, "hidden", accumulate=True, scale=scale),))
    else:
        yield Project(source, (Product(name, "branch"),))
        yield Norm("branch", post_norm, "hidden", accumulate=True)
