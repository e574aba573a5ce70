"""Function tables: entries, ranges and the numbers around them.

The table answers to an index ``x``: LE holds 513 entries of the lower half, LO of the upper half, and
the chip interpolates between entries. What turns codes into an index and entries into results is the
BN stage in front and the output converter behind:

    x = (code - zero) * scale >> shift    entry = S * f(x)    result = entry * R

Integer tables are made for a range of inputs and of results. Ranges are rounded up to quarter octaves, so
tensors of similar scale share a table and a loaded one stays in use. fp16 tables are fixed per function.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from orkbench_tui.driver.failures import OperandError
from orkbench_tui.driver.regcmd.programs import OutputConversion
from orkbench_tui.driver.sdp.fixed_point import conversion_for, fixed_point
from orkbench_tui.driver.sdp.formats import SdpFormat
from orkbench_tui.driver.sdp.lut_functions import Domain, LutFunction
from orkbench_tui.driver.sdp.programs import StageNumbers

__all__ = [
    "ENTRIES",
    "HALF_RANGE",
    "Lut",
    "LutHalf",
    "LutUse",
    "accumulator_lut",
    "fp16_lut",
    "integer_lut",
]

ENTRIES = 513
HALF_RANGE = 16384
_STEP_SELECT = 5
_MAX_ENTRY = 32767
_CODES_PER_INDEX_INT8 = 128
_FINE_CODES = 512
_COARSE_SELECT = 6
_SLOPE_SHIFT_MAX = 31


@dataclass(frozen=True, slots=True)
class Slope:
    """What is added per index unit outside a table: ``scale / 2**shift``, rounded down."""

    scale: int = 0
    shift: int = 0


@dataclass(frozen=True, slots=True)
class LutHalf:
    """513 entries from index ``start``, ``2**select`` apart; int16."""

    entries: np.ndarray
    start: int
    select: int = _STEP_SELECT

    @property
    def end(self) -> int:
        return self.start + ((ENTRIES - 1) << self.select)


@dataclass(frozen=True, slots=True, eq=False)
class Lut:
    """Both halves. ``key`` says what the table holds: equal keys, equal entries.

    ``index_units`` are index units and ``value_units`` entry units per 1.0; ``centre`` is the input at
    index 0. A table over codes (``rsqrt``) has index units per code instead.
    """

    key: tuple[object, ...]
    le: LutHalf
    lo: LutHalf
    index_units: float
    value_units: float
    centre: float = 0.0
    low: Slope = field(default_factory=Slope)
    high: Slope = field(default_factory=Slope)


@dataclass(frozen=True, slots=True)
class LutUse:
    """A table with the numbers of one operation: BN makes the index, ``convert`` the result.

    ``exponent`` is MINUS_EXP of a floating-point result, whose converter adds ``convert.offset`` first.
    """

    lut: Lut
    bn: StageNumbers
    convert: OutputConversion
    exponent: int = 0


def _rounded_up(value: float) -> float:
    """The next quarter octave: 2**(n/4) >= value."""
    return 2.0 ** (math.ceil(4 * math.log2(value) - 1e-9) / 4)


def _entries(values: np.ndarray, units: float) -> np.ndarray:
    return np.clip(np.rint(values * units), -_MAX_ENTRY - 1, _MAX_ENTRY).astype(np.int16)


def _slope(per_index: float) -> Slope:
    if per_index <= 0:
        return Slope()
    shift = min(_SLOPE_SHIFT_MAX, math.floor(math.log2(_MAX_ENTRY / per_index)))
    return Slope(round(math.ldexp(per_index, shift)), shift)


def _halves(
    function: LutFunction, centre: float, index_units: float, value_units: float
) -> tuple[LutHalf, LutHalf]:
    steps = np.arange(ENTRIES, dtype=np.float64) * (1 << _STEP_SELECT)
    low = function.compute(centre + (steps - HALF_RANGE) / index_units)
    high = function.compute(centre + steps / index_units)
    return LutHalf(_entries(low, value_units), -HALF_RANGE), LutHalf(_entries(high, value_units), 0)


def _lut(function: LutFunction, centre: float, half_width: float, peak: float) -> Lut:
    index_units, value_units = HALF_RANGE / half_width, _MAX_ENTRY / peak
    le, lo = _halves(function, centre, index_units, value_units)
    return Lut(
        (function.name, centre, half_width, peak),
        le,
        lo,
        index_units,
        value_units,
        centre,
        _slope(function.low_slope * value_units / index_units),
        _slope(function.high_slope * value_units / index_units),
    )


def _range(format: SdpFormat, zero: int, scale: float) -> tuple[float, float]:
    low, high = format.limits
    return (low - zero) * scale, (high - zero) * scale


def _around_zero(function: LutFunction, inputs: tuple[float, float], top: float) -> Lut:
    widest = max(abs(inputs[0]), abs(inputs[1]))
    half_width = function.reach if widest > function.reach else min(function.reach, _rounded_up(widest))
    edges = np.linspace(-half_width, half_width, 1025)
    peak = float(np.abs(function.compute(edges)).max())
    return _lut(function, 0.0, half_width, min(peak, top))


def _below_top(function: LutFunction, inputs: tuple[float, float], top: float) -> Lut:
    """The window ends where the result leaves its type or the inputs end, in steps of a half."""
    end = math.ceil(2 * min(inputs[1], math.log(top))) / 2
    start = max(end - function.reach, math.floor(2 * inputs[0]) / 2)
    half_width = max(0.25, (end - start) / 2)
    return _lut(function, end - half_width, half_width, float(function.compute(np.array(end))))


def _positive(function: LutFunction, format: SdpFormat) -> Lut:
    """Over codes: the function of a scaled code is the function of the code times a constant.

    A code is 128 index units in int8, so every code falls on an entry. In int16 LE holds the first 512
    codes one by one and LO the rest 64 apart. Codes below 1 get the value of code 1.
    """
    steps = np.arange(ENTRIES, dtype=np.float64)
    if format.dtype.itemsize == 1:
        codes = steps * (1 << _STEP_SELECT) / _CODES_PER_INDEX_INT8
        units = float(_CODES_PER_INDEX_INT8)
        le, lo = np.ones(ENTRIES), codes
        starts, selects = (-HALF_RANGE, 0), (_STEP_SELECT, _STEP_SELECT)
    else:
        units = 1.0
        le, lo = steps, _FINE_CODES + steps * (1 << _COARSE_SELECT)
        starts, selects = (0, _FINE_CODES), (0, _COARSE_SELECT)
    low, high = (
        LutHalf(_entries(function.compute(np.maximum(codes, 1.0)), _MAX_ENTRY), start, select)
        for codes, start, select in zip((le, lo), starts, selects, strict=True)
    )
    return Lut((function.name, format.name), low, high, units, float(_MAX_ENTRY))


def integer_lut(
    function: LutFunction,
    format: SdpFormat,
    *,
    in_scale: float,
    out_scale: float,
    in_zero: int = 0,
    out_zero: int = 0,
) -> LutUse:
    """The table and numbers of ``out = f((code - in_zero) * in_scale) / out_scale + out_zero``.

    Raises:
        OperandError: a scale that is not a positive number or out of what 15-bit factors reach, or a zero
            point outside the type.
    """
    for name, scale in (("in_scale", in_scale), ("out_scale", out_scale)):
        if not math.isfinite(scale) or scale <= 0:
            raise OperandError(f"{name} = {scale}: allowed are positive numbers")
    low, high = format.limits
    for name, zero in (("in_zero", in_zero), ("out_zero", out_zero)):
        if not low <= zero <= high:
            raise OperandError(f"{name} = {zero}: {format.name} holds {low} to {high}")
    inputs = _range(format, in_zero, in_scale)
    top = _rounded_up(max(abs(edge) for edge in _range(format, out_zero, out_scale)))
    if function.domain is Domain.POSITIVE:
        lut = _positive(function, format)
        per_code = fixed_point(lut.index_units, 0)
        factor = float(function.compute(np.array(in_scale))) / (lut.value_units * out_scale)
    else:
        build = _around_zero if function.domain is Domain.AROUND_ZERO else _below_top
        lut = build(function, inputs, top)
        per_code = fixed_point(lut.index_units * in_scale)
        factor = 1.0 / (lut.value_units * out_scale)
    centre = round(lut.centre * lut.index_units) << per_code.shift
    alu = -in_zero * per_code.scale - centre
    if not -(1 << 31) <= alu < 1 << 31:
        raise OperandError(
            f"in_zero = {in_zero} at in_scale = {in_scale}: its product with the factor exceeds 32 bits"
        )
    return LutUse(lut, StageNumbers(alu, per_code.scale, per_code.shift), conversion_for(factor, out_zero))


def accumulator_lut(
    function: LutFunction, *, acc_scale: float, reach: float, out_scale: float, out_zero: int = 0
) -> LutUse:
    """The table and numbers of ``out = f(acc * acc_scale) / out_scale + out_zero`` behind an int8 matmul.

    Args:
        reach: the table covers results of the matmul from -reach to reach; beyond it tails take over.

    Raises:
        OperandError: scales out of reach, or a function that is not laid around zero.
    """
    if function.domain is not Domain.AROUND_ZERO:
        raise OperandError(
            f"{function.name} behind a matmul", why="its table would need an offset of its own"
        )
    for name, value in (("acc_scale", acc_scale), ("reach", reach), ("out_scale", out_scale)):
        if not math.isfinite(value) or value <= 0:
            raise OperandError(f"{name} = {value}", why="allowed are positive numbers")
    lut = _around_zero(function, (-reach, reach), math.inf)
    index = fixed_point(lut.index_units * acc_scale)
    return LutUse(
        lut,
        StageNumbers(0, index.scale, index.shift),
        conversion_for(1.0 / (lut.value_units * out_scale), out_zero),
    )


_FP16_RSQRT_UNITS = 256
_MINUS_ZERO = 0x8000_0000


def fp16_lut(function: LutFunction) -> LutUse:
    """The table of a function on fp16, results as ``(entry + 1) * 2**-exponent``.

    An entry of 0 was seen to come back as about 4.0, so entries of results from 0 up are at least 1.
    ``rsqrt`` covers 0.25 to 66: LE holds the inputs up to 2 in steps of 1/256, LO the rest in steps of 1/8.

    Raises:
        OperandError: a function with a sloped tail; those are built from a gate, see ``ops``.
    """
    if function.low_slope or function.high_slope:
        raise OperandError(f"{function.name} of fp16 has no table of its own")
    steps = np.arange(ENTRIES, dtype=np.float64)
    if function.domain is Domain.POSITIVE:
        units, exponent = float(_FP16_RSQRT_UNITS), 14
        starts, selects = (0, _FINE_CODES), (0, _STEP_SELECT)
    else:
        units, exponent = float(np.float16(HALF_RANGE / function.reach)), 15
        starts, selects = (-HALF_RANGE, 0), (_STEP_SELECT, _STEP_SELECT)
    halves = []
    for start, select in zip(starts, selects, strict=True):
        index = start + steps * (1 << select)
        x = np.maximum(index, 1.0) if function.domain is Domain.POSITIVE else index
        if function.domain is Domain.BELOW_TOP:
            x = np.minimum(x, 0.0)
        values = function.compute(x / units)
        entries = np.clip(np.rint(np.ldexp(values, exponent)) - 1, -_MAX_ENTRY, _MAX_ENTRY)
        floored = np.where(values >= 0, np.maximum(entries, 1), entries)
        halves.append(LutHalf(floored.astype(np.int16), start, select))
    lut = Lut((function.name, "fp16"), halves[0], halves[1], units, math.ldexp(1.0, exponent))
    factor = int(np.float16(units).view(np.uint16))
    return LutUse(lut, StageNumbers(_MINUS_ZERO, factor), OutputConversion(1, 0, 1), exponent)
