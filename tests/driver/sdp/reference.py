"""What the output pipeline computes, written from its published arithmetic with Python integers.

Knows nothing of the driver or of the simulated chip.
"""

from fractions import Fraction

import numpy as np

LIMITS = {"int8": (-128, 127), "int16": (-32768, 32767), "int32": (-(2**31), 2**31 - 1)}
TYPES = {"int8": np.int8, "int16": np.int16, "int32": np.int32, "fp16": np.float16, "fp32": np.float32}


def rounded_shift(product, shift):
    """``product / 2**shift``, half to even; exact for any size."""
    product = np.asarray(product, dtype=object)
    return np.vectorize(lambda p: round(Fraction(int(p), 1 << shift)), otypes=[object])(product)


def saturated(values, dtype):
    low, high = LIMITS[dtype]
    return np.vectorize(lambda v: min(max(v, low), high), otypes=[object])(values).astype(TYPES[dtype])


def converted(values, dtype, scale, shift, offset=0):
    return saturated(rounded_shift(np.asarray(values, dtype=object) * scale, shift) + offset, dtype)


def multiplied(a, b, dtype, scale, shift, a_zero=0, b_zero=0, offset=0):
    product = (a.astype(object) - a_zero) * (b.astype(object) - b_zero)
    return converted(product, dtype, scale, shift, offset)


def added(a, b, dtype, a_term, b_term, scale, shift, a_zero=0, b_zero=0, offset=0):
    """``a_term`` and ``b_term`` are (scale, shift) of the two operands."""
    left = rounded_shift((a.astype(object) - a_zero) * a_term[0], a_term[1])
    right = rounded_shift((b.astype(object) - b_zero) * b_term[0], b_term[1])
    return converted(left + right, dtype, scale, shift, offset)


def looked_up(le, lo, x):
    """The vendor's table: both halves 32 units a step, joined at 0, flat outside."""

    def one(value):
        table, start = (lo, 0) if value >= 0 else (le, -16384)
        inside = min(max(value - start, 0), 16384)
        index, rest = divmod(inside, 32)
        first = int(table[index])
        return first if index == 512 else first + ((int(table[index + 1]) - first) * rest >> 5)

    return np.vectorize(one, otypes=[object])(np.asarray(x, dtype=object))


def extremes(dtype, shape, seed=0):
    """Random values of the whole range with the ends sprinkled in; fp16 of moderate size."""
    random = np.random.default_rng(seed)
    if dtype in LIMITS:
        low, high = LIMITS[dtype]
        values = random.integers(low, high + 1, shape).astype(TYPES[dtype])
        ends = random.choice(np.array([low, low + 1, -1, 0, 1, high - 1, high]), shape)
        return np.where(random.random(shape) < 0.2, ends, values).astype(TYPES[dtype])
    values = random.standard_normal(shape) * random.choice([1e-3, 1.0, 100.0], shape)
    return values.astype(TYPES[dtype])


def rounded_int64(values, shift):
    """``rounded_shift`` on int64 arrays, for long runs; products must stay below 2**62."""
    if shift == 0:
        return values
    quotient, rest, half = values >> shift, values & ((1 << shift) - 1), 1 << (shift - 1)
    return quotient + ((rest > half) | ((rest == half) & (quotient & 1 == 1)))


def converted_int64(values, dtype, scale, shift, offset=0):
    low, high = LIMITS[dtype]
    return np.clip(rounded_int64(values * scale, shift) + offset, low, high).astype(TYPES[dtype])
