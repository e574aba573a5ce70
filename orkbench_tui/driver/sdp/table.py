"""Element-wise operations as rows: which stages of the output pipeline an operation uses, and who has seen it run.

A row is one operation for one number type. ``ork npu op --list`` prints them; docs/adding-an-op.md adds one.

BS and BN are the two stages before the element-wise unit: BS adds, then multiplies; BN multiplies, then
adds; both end in ReLU. EW works on the data and a second operand, or on the data alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from orkbench_tui.driver.failures import OperandError
from orkbench_tui.driver.regcmd.registers import value_of

__all__ = ["ROWS", "TABLE", "Evidence", "Ew", "OpRow", "Operand", "Stage", "row_for"]


class Stage(StrEnum):
    """What BS or BN does; ``word`` is its configuration register."""

    BYPASS = "bypass"
    ADD = "add"
    ADD_MUL = "add and multiply"
    MUL = "multiply"
    RELU = "ReLU"

    @property
    def word(self) -> int:
        return _STAGE_WORDS[self]


_STAGE_WORDS: Mapping[Stage, int] = MappingProxyType(
    {
        Stage.BYPASS: value_of("dpu_bs_cfg", relu_bypass=1, mul_bypass=1, alu_bypass=1, bypass=1),
        Stage.ADD: value_of("dpu_bs_cfg", alu_algo=2, relu_bypass=1, mul_bypass=1),
        Stage.ADD_MUL: value_of("dpu_bs_cfg", alu_algo=2, relu_bypass=1),
        Stage.MUL: value_of("dpu_bs_cfg", relu_bypass=1, alu_bypass=1),
        Stage.RELU: value_of("dpu_bs_cfg", mul_bypass=1, alu_bypass=1),
    }
)


class Operand(StrEnum):
    """The second operand: none, one per element for EW, or one per channel that BN multiplies by."""

    NONE = "none"
    ELEMENT = "per element"
    CHANNEL = "per channel"


@dataclass(frozen=True, slots=True)
class Ew:
    """The arithmetic of EW: ``alu`` is an ALU code, None multiplies. ``unary`` codes read no operand.

    ``convert`` runs the operand through its converter, without which a floating-point addition is
    silently dropped.
    """

    alu: int | None
    convert: bool = True
    unary: bool = False


MUL = Ew(None)
MUL_PLAIN = Ew(None, convert=False)
MAX, MIN, ADD, SUB = Ew(0), Ew(1), Ew(2), Ew(4)
ADD_PLAIN = Ew(2, convert=False)


class Evidence(StrEnum):
    """Who has seen a program of this form work."""

    VENDOR = "vendor capture"
    BOARD = "run on boards"
    DERIVED = "derived from register fields"


@dataclass(frozen=True, slots=True)
class OpRow:
    """One operation of one number type. ``out`` names the result's type when it differs."""

    op: str
    dtype: str
    ew: Ew | None
    evidence: Evidence
    operand: Operand = Operand.NONE
    bs: Stage = Stage.BYPASS
    bn: Stage = Stage.BYPASS
    out: str = ""

    @property
    def linkable(self) -> bool:
        """Whether its programs may share a submit: only with BS and BN bypassed, or the chain stalls."""
        return self.bs is Stage.BYPASS and self.bn is Stage.BYPASS


_ELEMENT, _CHANNEL = Operand.ELEMENT, Operand.CHANNEL
_V, _B, _D = Evidence.VENDOR, Evidence.BOARD, Evidence.DERIVED

ROWS = (
    OpRow("mul", "int8", MUL, _V, _ELEMENT, bs=Stage.ADD),
    OpRow("mul", "int16", MUL, _V, _ELEMENT, bs=Stage.ADD),
    OpRow("mul", "fp16", MUL_PLAIN, _V, _ELEMENT),
    OpRow("add", "int8", ADD, _V, _ELEMENT, bs=Stage.ADD_MUL),
    OpRow("add", "int16", ADD, _V, _ELEMENT, bs=Stage.ADD_MUL),
    OpRow("add", "fp16", ADD, _V, _ELEMENT),
    OpRow("add", "int32", ADD_PLAIN, _B, _ELEMENT),
    OpRow("add_to_fp32", "int32", ADD_PLAIN, _B, _ELEMENT, out="fp32"),
    OpRow("sub", "fp16", SUB, _B, _ELEMENT),
    OpRow("max", "int8", MAX, _D, _ELEMENT),
    OpRow("max", "int16", MAX, _D, _ELEMENT),
    OpRow("max", "fp16", MAX, _B, _ELEMENT),
    OpRow("min", "int8", MIN, _D, _ELEMENT),
    OpRow("min", "int16", MIN, _D, _ELEMENT),
    OpRow("min", "fp16", MIN, _D, _ELEMENT),
    OpRow("mul_perchannel", "int8", None, _D, _CHANNEL, bs=Stage.ADD, bn=Stage.MUL),
    OpRow("mul_perchannel", "fp16", None, _D, _CHANNEL, bn=Stage.MUL),
    OpRow("scale_vector", "fp32", MUL_PLAIN, _B, _ELEMENT, bs=Stage.MUL),
    OpRow("relu", "int8", None, _B, bs=Stage.RELU),
    OpRow("relu", "int16", None, _B, bs=Stage.RELU),
    OpRow("relu", "fp16", None, _B, bs=Stage.RELU),
    OpRow("copy", "int8", None, _B),
    OpRow("copy", "int16", None, _D),
    OpRow("copy", "fp16", None, _D),
)
"""Every element-wise operation without a table."""

TABLE: Mapping[tuple[str, str], OpRow] = MappingProxyType({(row.op, row.dtype): row for row in ROWS})


def row_for(op: str, dtype: str) -> OpRow:
    """The row of an operation.

    Raises:
        OperandError: no such operation, or not for that type.
    """
    if row := TABLE.get((op, dtype)):
        return row
    types = [row.dtype for row in ROWS if row.op == op]
    if types:
        raise OperandError(f"{op} of {dtype}", why=f"it exists for {', '.join(types)}")
    names = ", ".join(dict.fromkeys(row.op for row in ROWS))
    raise OperandError(f"no element-wise operation {op!r}", why=f"there are {names}")
