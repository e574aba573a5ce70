"""Integer products and rounded shifts of the output stage.

Values are int64. Where a product could leave 62 bits it is built with Python integers, so every result
is exact; one that does not fit 64 bits stays at the nearest end.
"""

from __future__ import annotations

from enum import Enum

import numpy as np
from numpy.typing import NDArray

from orkbench_tui.sim.chip.elements import Numbers

__all__ = ["Rounding", "multiply_shift", "saturated"]

_SAFE = 1 << 62
_LOW, _HIGH = -(1 << 63), (1 << 63) - 1

Factor = int | NDArray[np.int64]


class Rounding(Enum):
    """How a right shift treats what it drops."""

    HALF_EVEN = "half to even"
    HALF_AWAY = "half away from zero"
    FLOOR = "floor"


def _largest(values: Factor) -> int:
    if isinstance(values, int):
        return abs(values)
    return max(abs(int(values.max(initial=0))), abs(int(values.min(initial=0))))


def saturated(values: Numbers) -> NDArray[np.int64]:
    """Python integers back to int64, at the nearest end where they do not fit."""
    if values.dtype != object:
        return values
    return np.clip(values, _LOW, _HIGH).astype(np.int64)


def _shifted(values: Numbers, shift: int, rounding: Rounding) -> Numbers:
    if shift == 0:
        return values
    if rounding is Rounding.FLOOR:
        return values >> shift
    half = 1 << (shift - 1)
    if rounding is Rounding.HALF_EVEN:
        return (values + (half - 1) + ((values >> shift) & 1)) >> shift
    return np.where(values < 0, -((-values + half) >> shift), (values + half) >> shift)


def multiply_shift(
    values: NDArray[np.int64],
    factor: Factor = 1,
    *,
    before: Factor = 0,
    after: Factor = 0,
    shift: int = 0,
    shift_negative: int | None = None,
    rounding: Rounding = Rounding.HALF_EVEN,
) -> NDArray[np.int64]:
    """``((values + before) * factor + after) >> shift``; negative numbers use ``shift_negative``.

    Shifts are at most 63; factors and addends broadcast against ``values``.
    """
    down = shift if shift_negative is None else shift_negative
    bound = (_largest(values) + _largest(before)) * max(1, _largest(factor)) + _largest(after)
    top = 1 << max(shift, down)
    if bound + top >= _SAFE:
        values = values.astype(object)
        before, factor, after = (
            x if isinstance(x, int) else x.astype(object) for x in (before, factor, after)
        )
    wide = (values + before) * factor + after
    result = _shifted(wide, shift, rounding)
    if down != shift:
        result = np.where(wide < 0, _shifted(wide, down, rounding), result)
    return saturated(result)
