"""Random operands of every matmul format and what a matmul of them must give, by plain integer arithmetic."""

from __future__ import annotations

import numpy as np

from orkbench_tui.driver.matmul.formats import FORMATS, MatmulFormat
from orkbench_tui.driver.regcmd.programs import OutputConversion

FORMAT_NAMES = tuple(FORMATS)
NARROW = {
    "int8->int8": OutputConversion(scale=23, shift=15),
    "int8->int16": OutputConversion(scale=3, shift=4),
}


def random_matrix(format: MatmulFormat, shape: tuple[int, int], random: np.random.Generator) -> np.ndarray:
    if format.operand is np.float16:
        return random.standard_normal(shape).astype(np.float16)
    low, high = (-8, 7) if format.name == "int4" else (-128, 127)
    if format.name == "int16":
        low, high = -32768, 32767
    return random.integers(low, high + 1, shape).astype(format.operand)


def expected(format: MatmulFormat, a: np.ndarray, w: np.ndarray) -> np.ndarray:
    """int64 results of integer formats, float64 sums of fp16."""
    if format.operand is np.float16:
        return a.astype(np.float64) @ w.astype(np.float64).T
    total = a.astype(np.int64) @ w.astype(np.int64).T
    convert = NARROW.get(format.name)
    if convert is None:
        return np.clip(total, -(2**31), 2**31 - 1)
    exact = total * convert.scale / 2**convert.shift
    limits = np.iinfo(format.result)
    return np.clip(np.rint(exact).astype(np.int64) + convert.offset, limits.min, limits.max)


def matches(format: MatmulFormat, result: np.ndarray, a: np.ndarray, w: np.ndarray) -> bool:
    """Integers exactly; fp16 within the bound of K - 1 fp32 additions in any order."""
    right = expected(format, a, w)
    if format.operand is not np.float16:
        return bool(np.array_equal(result, right))
    bound = a.shape[1] * 2.0**-24 * (np.abs(a).astype(np.float64) @ np.abs(w).astype(np.float64).T)
    if format.result is np.float16:
        bound += np.maximum((np.abs(right) + bound) * 2.0**-11, 2.0**-25)
    return bool((np.abs(result - right) <= bound).all())
