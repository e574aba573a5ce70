"""Which operation may follow which in one submit: a lookup, not an algorithm.

``HW``: both ride one linked submit. ``SW``: two submits, the result stays on the NPU, no reset between.
``DISALLOW``: never linked; independent submits with a reset between, which is always right. DISALLOW is
the answer for every pair nobody has shown to work, so it says nothing against the mathematics.

The kinds surveyed on silicon are the first 29; the six added later have no edge of their own yet.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import NoReturn

from orkbench_tui.driver import guards
from orkbench_tui.errors import RefusedError

__all__ = [
    "CHAIN_TABLE",
    "SURVEYED",
    "ChainRule",
    "Composite",
    "Implementation",
    "OpGroup",
    "OpKind",
    "Run",
    "chain_rule",
    "counts",
    "hazard",
    "op_group",
    "partition",
    "require_hardware_edge",
]


class OpKind(StrEnum):
    """Operations by name. With weights: w<weight bits>a<activation bits>; without: the data type last."""

    MATMUL_W8A8 = "matmul_w8a8"
    MATMUL_W16A16 = "matmul_w16a16"
    MATMUL_W4A4 = "matmul_w4a4"
    SILU_F16 = "silu_f16"
    MUL_F16 = "mul_f16"
    SILU_I8 = "silu_i8"
    GELU_I8 = "gelu_i8"
    MUL_I8 = "mul_i8"
    ADD_I8 = "add_i8"
    ADD_F16 = "add_f16"
    SILU_I16 = "silu_i16"
    MATMUL_W4A4_GROUPED = "matmul_w4a4_grouped"
    GELU_I16 = "gelu_i16"
    RSQRT_I8 = "rsqrt_i8"
    EXP_I8 = "exp_i8"
    EXP_I16 = "exp_i16"
    MUL_I16 = "mul_i16"
    ADD_I16 = "add_i16"
    MUL_PERCHANNEL_I8 = "mul_perchannel_i8"
    MUL_PERCHANNEL_F16 = "mul_perchannel_f16"
    MUL_PERCHANNEL_I16 = "mul_perchannel_i16"
    MATMUL_PERCHANNEL_W16A16 = "matmul_perchannel_w16a16"
    REQUANTIZE_PERCHANNEL_I32 = "requantize_perchannel_i32"
    SOFTMAX_F16 = "softmax_f16"
    REDUCEMAX_I8 = "reducemax_i8"
    RESHAPE_F16 = "reshape_f16"
    ROPE_NEOX_F16 = "rope_neox_f16"
    MATMUL_SILU_W8A8 = "matmul_silu_w8a8"
    MATMUL_REQUANT_W8A8 = "matmul_requant_w8a8"
    MATMUL_SILU_W8A8_I32OUT = "matmul_silu_w8a8_i32out"
    RMSNORM_F16 = "rmsnorm_f16"
    L2NORM_F16 = "l2norm_f16"
    RSQRT_I16 = "rsqrt_i16"
    MATMUL_W16A16_F16OUT = "matmul_w16a16_f16out"
    MATMUL_W8A8_I16OUT = "matmul_w8a8_i16out"


SURVEYED: tuple[OpKind, ...] = tuple(OpKind)[:29]
"""The kinds the published 29 x 29 survey has a cell for."""


class Composite(StrEnum):
    """Several operations behind one call."""

    CHAIN_MATMUL_W8A8 = "chain_matmul_w8a8"
    FFN_SWIGLU_W8A8 = "ffn_swiglu_w8a8"
    FFN_GATE_SILU_W8A8 = "ffn_gate_silu_w8a8"
    FFN_GATE_SDPSILU_W8A8 = "ffn_gate_sdpsilu_w8a8"
    CHAIN_MATMUL_PERCHANNEL_W16A16 = "chain_matmul_perchannel_w16a16"
    SEQ = "seq"
    MATMUL_SILU_W16A16_I16SILU = "matmul_silu_w16a16_i16silu"
    MATMUL_BATCHED_FUSED_W16A16 = "matmul_batched_fused_w16a16"
    GRAPH_REPLAY_F16 = "graph_replay_f16"


class Implementation(StrEnum):
    """Which form of an operation runs."""

    STANDALONE = "standalone"
    HW_CHAINED = "hw_chained"
    SW_CHAINED = "sw_chained"


class OpGroup(StrEnum):
    MATMUL = "matmul"
    ACTIVATION = "activation"
    ELEMENTWISE = "element-wise"
    REDUCE = "norm and reduce"
    LAYOUT = "layout"


_GROUP_BY_PREFIX = (
    ("matmul", OpGroup.MATMUL),
    ("silu", OpGroup.ACTIVATION),
    ("gelu", OpGroup.ACTIVATION),
    ("exp", OpGroup.ACTIVATION),
    ("rsqrt", OpGroup.ACTIVATION),
    ("mul", OpGroup.ELEMENTWISE),
    ("add", OpGroup.ELEMENTWISE),
    ("rmsnorm", OpGroup.REDUCE),
    ("l2norm", OpGroup.REDUCE),
    ("softmax", OpGroup.REDUCE),
    ("reducemax", OpGroup.REDUCE),
    ("requantize", OpGroup.REDUCE),
    ("reshape", OpGroup.LAYOUT),
    ("rope", OpGroup.LAYOUT),
)


def op_group(kind: OpKind) -> OpGroup:
    return next(group for prefix, group in _GROUP_BY_PREFIX if kind.startswith(prefix))


class ChainRule(StrEnum):
    HW = "HW"
    SW = "SW"
    DISALLOW = "DISALLOW"


_HW_EDGES = (
    (OpKind.MATMUL_W8A8, OpKind.MATMUL_W8A8),
    (OpKind.MATMUL_W8A8, OpKind.SILU_I8),
    (OpKind.SILU_I8, OpKind.MATMUL_W8A8),
    (OpKind.MATMUL_W8A8, OpKind.MUL_I8),
    (OpKind.MUL_I8, OpKind.MATMUL_W8A8),
    (OpKind.MATMUL_W16A16, OpKind.MUL_PERCHANNEL_F16),
)

# Every ordered pair of these ran as two submits without a reset and without harm.
_SEQUENCED = (
    OpKind.MATMUL_W16A16,
    OpKind.MATMUL_W8A8,
    OpKind.EXP_I16,
    OpKind.SILU_I16,
    OpKind.MUL_I16,
    OpKind.MUL_F16,
    OpKind.ADD_F16,
)

_SW_EDGES = (
    *((first, second) for first in _SEQUENCED for second in _SEQUENCED),
    (OpKind.MATMUL_W16A16, OpKind.GELU_I16),
    (OpKind.MATMUL_W16A16, OpKind.ADD_I16),
)

CHAIN_TABLE: Mapping[tuple[OpKind, OpKind], ChainRule] = MappingProxyType(
    dict.fromkeys(_SW_EDGES, ChainRule.SW) | dict.fromkeys(_HW_EDGES, ChainRule.HW)
)
"""Every pair that is not DISALLOW."""


def chain_rule(first: OpKind | str, second: OpKind | str) -> ChainRule:
    """How ``second`` may follow ``first``; DISALLOW for names nobody knows."""
    try:
        return CHAIN_TABLE.get((OpKind(first), OpKind(second)), ChainRule.DISALLOW)
    except ValueError:
        return ChainRule.DISALLOW


def counts(kinds: Sequence[OpKind] = SURVEYED) -> dict[ChainRule, int]:
    """Cells per rule over all ordered pairs of ``kinds``."""
    found = dict.fromkeys(ChainRule, 0)
    for first in kinds:
        for second in kinds:
            found[chain_rule(first, second)] += 1
    return found


# Pairs something is known about beyond the rule; the guard is the one that stops a hardware edge.
_NAMED_HAZARDS: Mapping[tuple[OpKind, OpKind], tuple[str, str]] = MappingProxyType(
    {
        (OpKind.MATMUL_W16A16, OpKind.SILU_I8): ("the job hung without output", "GRD-04"),
        (OpKind.MATMUL_W16A16, OpKind.GELU_I8): ("the board wedged until a power cycle", "GRD-04"),
        (OpKind.MATMUL_W8A8, OpKind.SILU_I8): (
            "as two submits without a reset the job hung; linked in one submit it works",
            "",
        ),
        (OpKind.MATMUL_W8A8, OpKind.MUL_I16): (
            "the linked form with two inputs hung; two submits work",
            "",
        ),
        (OpKind.MATMUL_W8A8, OpKind.MUL_PERCHANNEL_I16): ("the form with two inputs hung", ""),
    }
)


def _is_int8_sdp(kind: OpKind) -> bool:
    return kind.endswith("_i8") and op_group(kind) is not OpGroup.MATMUL


def hazard(first: OpKind, second: OpKind) -> str:
    """What is known to go wrong between the two; empty when nothing is."""
    if (first, second) in _NAMED_HAZARDS:
        return _NAMED_HAZARDS[first, second][0]
    if _edge_guard(first, second):
        return "int8 element-wise operations linked behind a matmul hang"
    return ""


def _edge_guard(first: OpKind, second: OpKind) -> str:
    named = _NAMED_HAZARDS.get((first, second))
    if named and named[1]:
        return named[1]
    behind_matmul = op_group(first) is OpGroup.MATMUL and _is_int8_sdp(second)
    return "GRD-03" if behind_matmul and chain_rule(first, second) is not ChainRule.HW else ""


def require_hardware_edge(first: OpKind, second: OpKind) -> None:
    """For builders that link two programs: only HW edges pass.

    Raises:
        RefusedError: any other pair.
    """
    rule = chain_rule(first, second)
    if rule is not ChainRule.HW:
        _refuse_edge(first, second, rule)


def _refuse_edge(first: OpKind, second: OpKind, rule: ChainRule) -> NoReturn:
    seen = f"{first} -> {second} is {rule}"
    do = "run them as two submits" + (" with a reset between" if rule is ChainRule.DISALLOW else "")
    if guard := _edge_guard(first, second):
        guards.refuse(guard, seen=f"{seen}; {hazard(first, second)}", do=do)
    raise RefusedError("linking two operations in one submit", why=hazard(first, second) or seen, do=do)


@dataclass(frozen=True, slots=True)
class Run:
    """Operations ``start`` to ``start + len(kinds)`` of a sequence, to go into one submit.

    ``before`` is the rule of the edge the run was cut at, None for the first run: after SW the operands
    stay resident, after DISALLOW a reset comes between.
    """

    start: int
    kinds: tuple[OpKind, ...]
    before: ChainRule | None


def partition(sequence: Sequence[OpKind]) -> tuple[Run, ...]:
    """Cut a sequence at every edge that is not HW. Never fails: a disallowed pair is split."""
    cuts = [
        at for at in range(1, len(sequence)) if chain_rule(sequence[at - 1], sequence[at]) is not ChainRule.HW
    ]
    starts = [0, *cuts] if sequence else []
    return tuple(
        Run(
            start,
            tuple(sequence[start:end]),
            chain_rule(sequence[start - 1], sequence[start]) if start else None,
        )
        for start, end in zip(starts, [*cuts, len(sequence)], strict=False)
    )
