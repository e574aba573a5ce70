"""Block Walsh-Hadamard rotation of rows: outliers spread over their block, products of two rotated rows keep.

The transform of a block of n values (a power of two) is butterflies at distance 1, 2, 4 … n / 2, sums and
differences in float32, then times 1 / sqrt(n). It is its own inverse. ``rotated_in_numpy`` is the same
arithmetic in the same order, so both give the same bits.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from orkbench_tui.native.library import address, lib, require

__all__ = ["WIDTH_MAX", "check_rotation", "rotated", "rotated_in_numpy", "rotation_block"]

Floats = NDArray[np.float32]
_Float = TypeVar("_Float", bound=np.floating)

# The kernels rotate a row on the stack.
WIDTH_MAX = 65536


def rotation_block(width: int) -> int:
    """The largest power of two that divides ``width``."""
    return width & -width


def check_rotation(width: int, block: int) -> None:
    """ValueError unless ``block`` is a power of two that divides ``width``, and a row fits the kernels."""
    if block < 1 or block & (block - 1) or width % block or width > WIDTH_MAX:
        raise ValueError(f"rows of {width} values cannot be rotated in blocks of {block}")


def rotated(rows: Floats, block: int) -> Floats:
    """float32 [R, width], every ``block`` values of each row transformed."""
    require(rows, np.float32, (None, None), "rows to rotate")
    count, width = rows.shape
    check_rotation(width, block)
    output = np.empty_like(rows)
    lib.ork_rotate_rows(address(rows, "float *"), address(output, "float *"), count, width, block)
    return output


def rotated_in_numpy(rows: NDArray[_Float], block: int) -> NDArray[_Float]:
    """What ``rotated`` computes, for any float type and any number of leading dimensions."""
    check_rotation(rows.shape[-1], block)
    values = rows.copy()
    apart = 1
    while apart < block:
        pairs = values.reshape(-1, 2, apart)
        low, high = pairs[:, 0] + pairs[:, 1], pairs[:, 0] - pairs[:, 1]
        values = np.stack((low, high), axis=1)
        apart *= 2
    one = rows.dtype.type(1)
    return values.reshape(rows.shape) * (one / np.sqrt(rows.dtype.type(block)))
