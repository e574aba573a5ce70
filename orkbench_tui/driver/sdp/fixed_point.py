"""Real factors as the integers the output pipeline multiplies and shifts by."""

from __future__ import annotations

import math
from dataclasses import dataclass

from orkbench_tui.driver.failures import OperandError
from orkbench_tui.driver.regcmd.programs import OutputConversion

__all__ = ["Addition", "FixedPoint", "addition", "conversion_for", "fixed_point"]

_LARGEST_SCALE = 0x7FFF
_ADD_SCALE = 1 << 14


@dataclass(frozen=True, slots=True)
class FixedPoint:
    """``scale / 2**shift``; ``scale`` fits 15 bits."""

    scale: int
    shift: int

    @property
    def value(self) -> float:
        return math.ldexp(self.scale, -self.shift)


def fixed_point(factor: float, max_shift: int = 31) -> FixedPoint:
    """The nearest ``scale / 2**shift`` to a factor, with the largest scale that fits 15 bits.

    Raises:
        OperandError: not a positive number, above 32767, or so small that it becomes zero.
    """
    if not math.isfinite(factor) or not 0 < factor <= _LARGEST_SCALE:
        raise OperandError(f"factor {factor}: allowed are numbers above 0 up to {_LARGEST_SCALE}")
    shift = min(max_shift, math.floor(math.log2(_LARGEST_SCALE / factor)))
    scale = round(math.ldexp(factor, shift))
    if scale > _LARGEST_SCALE:
        scale, shift = round(math.ldexp(factor, shift - 1)), shift - 1
    if scale == 0:
        raise OperandError(f"factor {factor}: allowed are numbers from {math.ldexp(0.5, -max_shift)}")
    return FixedPoint(scale, shift)


def conversion_for(factor: float, offset: int = 0) -> OutputConversion:
    """The output converter that multiplies by ``factor``, then adds ``offset``.

    Raises:
        OperandError: see ``fixed_point``.
    """
    fixed = fixed_point(factor)
    return OutputConversion(fixed.scale, fixed.shift, offset)


@dataclass(frozen=True, slots=True)
class Addition:
    """``((a + a0)*a_scale >> a_shift) + ((b + b0)*b_scale >> b_shift)``, then the output converter."""

    a_scale: int
    a_shift: int
    b_scale: int
    b_shift: int
    convert: OutputConversion


def addition(a_factor: float, b_factor: float, offset: int = 0, *, a_shift: int = 0) -> Addition:
    """The numbers of ``a*a_factor + b*b_factor + offset``; equal factors of 1 add exactly.

    The larger factor becomes 2**14 before the sum, so both fit 15 bits whatever their ratio.
    ``a_shift`` is how far the first stage shifts; its scale grows by as much.

    Raises:
        OperandError: a factor that is not a positive number, or both too large or too small together.
    """
    for factor in (a_factor, b_factor):
        if not math.isfinite(factor) or factor <= 0:
            raise OperandError(f"factor {factor}: allowed are positive numbers")
    larger = max(a_factor, b_factor)
    after = _ADD_SCALE >> a_shift
    # The first stage's scale is 2**14 at most; its shift halves the sum's unit instead.
    return Addition(
        a_scale=round(a_factor / larger * _ADD_SCALE),
        a_shift=a_shift,
        b_scale=round(b_factor / larger * after),
        b_shift=0,
        convert=conversion_for(larger / after, offset),
    )
