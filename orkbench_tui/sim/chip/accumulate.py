"""The MAC array: sums of products over K.

Integers are exact. The order in which the chip adds floating products is not known, so this is the
reference order: products are exact, each block of 32 channels is summed in float64 and rounded once to
fp32, and the blocks are added in fp32 in ascending order of k.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from orkbench_tui.sim.chip.elements import Numbers

__all__ = ["FLOAT_BLOCK", "float_sums", "integer_sums"]

FLOAT_BLOCK = 32
_TILE = 128
"""Kernels at a time: their sums stay in the second cache level."""
_EXACT_IN_FLOAT32, _EXACT_IN_FLOAT64 = 1 << 24, 1 << 53


def integer_sums(a: Numbers, b: Numbers, bits: int) -> NDArray[np.int64]:
    """Exact sums [P][N] of integers a [P][K] and b [N][K] of ``bits`` bits each.

    Goes through floating matrix products of a type that holds every partial sum exactly.
    """
    bound = a.shape[1] << (2 * (bits - 1))
    if bound > _EXACT_IN_FLOAT64:
        return np.matmul(a.astype(np.int64), b.astype(np.int64).T)
    kind = np.float32 if bound <= _EXACT_IN_FLOAT32 else np.float64
    sums: Numbers = np.matmul(a.astype(kind), b.astype(kind).T)
    return sums.astype(np.int64)


def float_sums(a: Numbers, b: Numbers) -> NDArray[np.float32]:
    """fp32 sums [P][N] of a [P][K] and b [N][K] in the reference order; NaN and Inf go through."""
    sums = np.zeros((len(a), len(b)), np.float32)
    with np.errstate(all="ignore"):
        left = a.astype(np.float64)
        for first in range(0, len(b), _TILE):
            right = b[first : first + _TILE].astype(np.float64)
            tile = np.zeros((len(a), len(right)), np.float32)
            for k in range(0, a.shape[1], FLOAT_BLOCK):
                block: Numbers = np.matmul(left[:, k : k + FLOAT_BLOCK], right[:, k : k + FLOAT_BLOCK].T)
                tile += block.astype(np.float32)
            sums[:, first : first + _TILE] = tile
    return sums
