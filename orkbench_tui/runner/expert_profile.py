"""How a model of experts runs when nobody says: the profile that was published as the fastest, as data.

It is chosen by the architecture alone and needs no setting; naming a scheme overrides it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from orkbench_tui.driver.timing.published import figure
from orkbench_tui.runner.gguf_types import GgmlType
from orkbench_tui.runner.models.architecture import Architecture
from orkbench_tui.runner.orkpack.schemes import DEFAULT_SCHEME, scheme_named
from orkbench_tui.runner.quantize.tiers import LOW_BITS, effective_bits

__all__ = ["EXPERT_SCHEME", "PROFILE", "Choice", "Part", "automatic_scheme", "published_gain"]

EXPERT_SCHEME = "nf4-mixed"


@dataclass(frozen=True, slots=True)
class Part:
    """``prefill`` and ``decode`` are where it runs, cpu or npu."""

    name: str
    weights: str
    prefill: str
    decode: str


PROFILE = (
    Part("router", "float32", "cpu", "cpu"),
    Part("experts", "NF4", "cpu", "cpu"),
    Part("attention and dense", "int8", "npu", "cpu"),
)


@dataclass(frozen=True, slots=True)
class Choice:
    """The scheme of a pack and why; ``why`` is "" for a model without experts."""

    scheme: str
    why: str = ""


def automatic_scheme(architecture: Architecture, source_type: Callable[[str], GgmlType]) -> Choice:
    """What a model is packed as unless somebody says; ``source_type`` tells how the file holds a tensor.

    Experts whose file has hardly more than 4 bits stay int8: 4 bits out of those would round them twice.
    """
    if architecture.moe is None:
        return Choice(DEFAULT_SCHEME)
    scheme = scheme_named(EXPERT_SCHEME)
    for linear in architecture.all_linears():
        if linear.index is None or scheme.tier(linear.name, linear.K)[0] == "int8":
            continue
        held = source_type(linear.source)
        if effective_bits(held) < LOW_BITS:
            return Choice(DEFAULT_SCHEME, f"its experts are {held.name}, which 4 bits would round twice")
    return Choice(EXPERT_SCHEME, "experts in NF4 on the CPU, attention in int8 on the NPU")


def published_gain() -> float:
    """Prefill of the profile over the CPU alone, as published for one model."""
    return figure("RES-20 pp512").value / figure("RES-20 native").value
