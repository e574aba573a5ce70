"""What a matmul must give, computed on this machine: exact for integers, a proven bound for fp16.

Products of fp16 numbers are exact in fp32. The order in which the chip adds them is not published, so
the bound holds for any order: K - 1 additions, each off by at most half a unit in the last place, give
at most ``(K - 1) u / (1 - (K - 1) u) * sum |a b|`` with ``u = 2**-24``. A result in fp16 is such a sum
rounded once more: half a unit of fp16 on top.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

    from orkbench_tui.driver.regcmd.programs import OutputConversion

__all__ = ["CHECKED_DTYPES", "Comparison", "compare", "operands"]

CHECKED_DTYPES = ("int8", "int8->int8", "int8->int16", "fp16", "fp16->fp16", "int16", "int4")

_RANGES = {"int8": (-128, 127), "int8->int8": (-128, 127), "int8->int16": (-128, 127), "int4": (-8, 7)}
_INT16_RANGE = (-32768, 32767)
_NARROW = {"int8->int8": (-128, 127), "int8->int16": (-32768, 32767)}
_UNIT = 2.0**-24
_HALF_UNIT_FP16 = 2.0**-11
_HALF_SUBNORMAL_FP16 = 2.0**-25
_FLOATING = ("fp16", "fp16->fp16")
_EXACT_SLICE = 1024
_BLOCK_WORK = 1 << 31


@dataclass(frozen=True, slots=True)
class Comparison:
    """``wrong`` elements; for fp16 the bound in words and the largest error in parts of it."""

    wrong: int | None
    bound: str | None = None
    worst: float | None = None


def operands(
    dtype: str, m: int, k: int, n: int, seed: int
) -> tuple[np.ndarray, np.ndarray, OutputConversion | None]:
    """A [m, k] and B [n, k] over the whole range of the format, and the conversion on output if it has one.

    Narrow results are scaled so that most of them do not saturate.
    """
    import math

    import numpy as np

    from orkbench_tui.driver.regcmd.programs import OutputConversion

    random = np.random.default_rng(seed)
    a: np.ndarray
    b: np.ndarray
    if dtype in _FLOATING:
        a, b = (random.standard_normal((rows, k)).astype(np.float16) for rows in (m, n))
        return a, b, None
    low, high = _RANGES.get(dtype, _INT16_RANGE)
    kind = np.int16 if dtype == "int16" else np.int8
    a, b = (random.integers(low, high + 1, (rows, k), dtype=kind) for rows in (m, n))
    if dtype not in _NARROW:
        return a, b, None
    # A sum of K random products spreads by about 128**2 / 3 * sqrt(K); half the narrow range is aimed at.
    factor = _NARROW[dtype][1] / 2 / (128 * 128 / 3 * math.sqrt(k))
    shift = min(31, int(math.log2(0x7FFF / factor)))
    return a, b, OutputConversion(scale=max(1, round(factor * 2**shift)), shift=shift)


def _integer_product(a: np.ndarray, b: np.ndarray, small: bool) -> np.ndarray:
    """Exact product as int64 [M, N].

    Through floating-point products of K slices whose partial sums are integers the type holds exactly.
    """
    import numpy as np

    kind = np.dtype(np.float32 if small else np.float64)
    total = np.zeros((a.shape[0], b.shape[0]), dtype=np.int64)
    for start in range(0, a.shape[1], _EXACT_SLICE):
        part = slice(start, start + _EXACT_SLICE)
        right = b[:, part].astype(kind).T
        for rows in _row_blocks(a.shape[0], right.size):
            total[rows] += (a[rows, part].astype(kind) @ right).astype(np.int64)
    return total


def _row_blocks(rows: int, work_per_row: int) -> Iterator[slice]:
    """Rows in blocks that take a part of a second: between them a signal's handler can run."""
    height = max(1, _BLOCK_WORK // max(1, work_per_row))
    return (slice(row, row + height) for row in range(0, rows, height))


def _narrowed(total: np.ndarray, convert: OutputConversion, low: int, high: int) -> np.ndarray:
    """``round(total * scale / 2**shift) + offset``, half to even, saturated."""
    import numpy as np

    product = total * convert.scale
    whole = product >> convert.shift
    rest = product - (whole << convert.shift)
    half = np.int64(1) << convert.shift >> 1
    up = (rest > half) | ((rest == half) & (whole & 1 == 1)) if convert.shift else np.zeros_like(rest, bool)
    return np.clip(whole + up + convert.offset, low, high)


def compare(
    dtype: str, a: np.ndarray, b: np.ndarray, convert: OutputConversion | None, c: np.ndarray
) -> Comparison:
    """How ``c`` [M, N] compares with what the operands must give."""
    import numpy as np

    if dtype in _FLOATING:
        return _within_bound(a, b, c, narrow=dtype == "fp16->fp16")
    total = _integer_product(a, b, small=dtype != "int16")
    if convert is not None and dtype in _NARROW:
        total = _narrowed(total, convert, *_NARROW[dtype])
    else:
        # Beyond 32 bits the chip saturates.
        total = np.clip(total, -(1 << 31), (1 << 31) - 1)
    return Comparison(int(np.count_nonzero(c != total)))


def _within_bound(a: np.ndarray, b: np.ndarray, c: np.ndarray, *, narrow: bool) -> Comparison:
    import numpy as np

    wide_b = b.astype(np.float64).T
    size_b = np.abs(wide_b)
    additions = (a.shape[1] - 1) * _UNIT
    wrong, worst = 0, 0.0
    for rows in _row_blocks(a.shape[0], wide_b.size):
        wide_a = a[rows].astype(np.float64)
        allowed = additions / (1 - additions) * (np.abs(wide_a) @ size_b)
        exact = wide_a @ wide_b
        if narrow:
            largest = np.abs(exact) + allowed
            allowed += np.maximum(largest * _HALF_UNIT_FP16, _HALF_SUBNORMAL_FP16)
        error = np.abs(c[rows] - exact)
        wrong += int(np.count_nonzero(~(error <= allowed)))
        worst = max(worst, float(np.max(error / np.where(allowed > 0, allowed, 1))))
    rounded = ", rounded once to fp16" if narrow else ""
    return Comparison(wrong, f"{a.shape[1] - 1} fp32 additions in any order{rounded}", worst)
