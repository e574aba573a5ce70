"""Scales and zero points of an operation as the numbers its program carries, one rule per operation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from orkbench_tui.driver.failures import OperandError
from orkbench_tui.driver.sdp.fixed_point import addition, conversion_for
from orkbench_tui.driver.sdp.formats import FORMATS
from orkbench_tui.driver.sdp.programs import ElementNumbers, SdpNumbers, StageNumbers
from orkbench_tui.driver.sdp.table import Operand, OpRow

__all__ = ["Quantization", "numbers_for"]


@dataclass(frozen=True, slots=True)
class Quantization:
    """``real = (code - zero) * scale`` for both operands and the result."""

    a_scale: float = 1.0
    b_scale: float = 1.0
    out_scale: float = 1.0
    a_zero: int = 0
    b_zero: int = 0
    out_zero: int = 0


_PLAIN = Quantization()
# The vendor's int16 addition shifts its first operand by one; int8 by none.
_ADD_SHIFT: Mapping[str, int] = MappingProxyType({"int8": 0, "int16": 1})


def _mul(row: OpRow, q: Quantization) -> SdpNumbers:
    return SdpNumbers(
        bs=StageNumbers(alu=-q.a_zero),
        ew=ElementNumbers(offset=-q.b_zero),
        convert=conversion_for(q.a_scale * q.b_scale / q.out_scale, q.out_zero),
    )


def _mul_perchannel(row: OpRow, q: Quantization) -> SdpNumbers:
    """The zero point of ``b`` is taken off before its factors are written to memory."""
    return replace(_mul(row, q), ew=ElementNumbers())


def _add(row: OpRow, q: Quantization) -> SdpNumbers:
    sum_ = addition(
        q.a_scale / q.out_scale, q.b_scale / q.out_scale, q.out_zero, a_shift=_ADD_SHIFT[row.dtype]
    )
    return SdpNumbers(
        bs=StageNumbers(-q.a_zero, sum_.a_scale, sum_.a_shift),
        ew=ElementNumbers(-q.b_zero, sum_.b_scale, sum_.b_shift),
        convert=sum_.convert,
    )


def _same_scale(row: OpRow, q: Quantization) -> SdpNumbers:
    if q.a_zero or q.b_zero or (row.operand is not Operand.NONE and q.a_scale != q.b_scale):
        raise OperandError(
            f"{row.op} of {row.dtype}",
            why="it compares codes, so operands need equal scales and zero points of 0",
            do="requantize one operand first",
        )
    return SdpNumbers(convert=conversion_for(q.a_scale / q.out_scale, q.out_zero))


Builder = Callable[[OpRow, Quantization], SdpNumbers]
_BUILDERS: Mapping[str, Builder] = MappingProxyType(
    {"mul": _mul, "mul_perchannel": _mul_perchannel, "add": _add}
)
_INTEGER_CODES = ("int8", "int16")


def numbers_for(row: OpRow, quantization: Quantization = _PLAIN) -> SdpNumbers:
    """The numbers of an operation; int8 and int16 round half to even and saturate.

    Raises:
        OperandError: scales or zero points an operation does not have, factors outside what the
            pipeline's integers reach, or zero points outside the type.
    """
    if row.dtype not in _INTEGER_CODES:
        if quantization != _PLAIN:
            raise OperandError(
                f"{row.op} of {row.dtype}", why="scales and zero points are for int8 and int16"
            )
        return SdpNumbers()
    low, high = FORMATS[row.dtype].limits
    for name in ("a_zero", "b_zero", "out_zero"):
        zero = getattr(quantization, name)
        if not low <= zero <= high:
            raise OperandError(f"{name} = {zero}: {row.dtype} holds {low} to {high}")
    return _BUILDERS.get(row.op, _same_scale)(row, quantization)
