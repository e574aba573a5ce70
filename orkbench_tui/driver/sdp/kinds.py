"""The operation kinds of the chain table, and what computes each of them here.

A planner looks up an edge by kind and builds the operation by name and type; this is the way between.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from orkbench_tui.driver.chain_rules import OpKind
from orkbench_tui.driver.sdp.lut_functions import FUNCTIONS
from orkbench_tui.driver.sdp.table import ROWS

__all__ = ["NOT_HERE", "OPERATIONS", "kind_of"]

_SUFFIXES = {"int8": "i8", "int16": "i16", "fp16": "f16"}
_TABLES = [(name, dtype) for name in FUNCTIONS for dtype in _SUFFIXES]
_OFFERED = [*((row.op, row.dtype) for row in ROWS), *_TABLES, ("rmsnorm", "fp16")]


def kind_of(op: str, dtype: str) -> OpKind | None:
    """The kind of an operation; None where the published survey has none."""
    name = f"{op}_{_SUFFIXES.get(dtype, dtype)}"
    return OpKind(name) if name in OpKind.__members__.values() else None


OPERATIONS: Mapping[OpKind, tuple[str, str]] = MappingProxyType(
    {kind: (op, dtype) for op, dtype in _OFFERED if (kind := kind_of(op, dtype)) is not None}
)
"""Kind to (operation, type)."""

NOT_HERE: Mapping[OpKind, str] = MappingProxyType(
    {
        OpKind.MUL_PERCHANNEL_I16: "hung on a board, see dead_forms",
        OpKind.REQUANTIZE_PERCHANNEL_I32: "done behind a matmul, see fused.requantized",
        OpKind.SOFTMAX_F16: "host; exp is a table, the sum of a row has no unit",
        OpKind.L2NORM_F16: "host; see norm for what has no unit",
        OpKind.REDUCEMAX_I8: "host; no unit reduces a row",
        OpKind.RESHAPE_F16: "host; a matter of layout",
        OpKind.ROPE_NEOX_F16: "host; pairs of channels half a row apart",
    }
)
"""Kinds without matmul that no program of this package computes, and where the work goes."""
