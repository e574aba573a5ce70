"""Tiles of a weight whose rows come one at a time: a row is made in a scratch array, quantized, and put in place.

Nothing but one row is ever held in float32, whatever the weight's size.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from orkbench_tui.native.rotation import check_rotation
from orkbench_tui.native.steps import Codes, Steps
from orkbench_tui.native.tiles import padded

__all__ = ["tiles_from_rows"]

Floats = NDArray[np.float32]
# Fills the array [K] with the row of this number.
RowReader = Callable[[int, Floats], None]

_TILE = 32


def tiles_from_rows(
    read: RowReader, n: int, k: int, *, rotation: int = 0, threads: int | None = 1
) -> tuple[NDArray[np.int8], Floats]:
    """(tiles, scales float32 [n]) of ``n`` rows, the bytes ``quantize_weights`` gives for all of them at once.

    ``read`` gets the same float32 [k] each time. ValueError for sizes or a rotation that do not fit.
    """
    if n < 1 or k < 1:
        raise ValueError(f"{n} rows of {k}")
    if rotation:
        check_rotation(k, rotation)
    scratch = np.zeros((1, k), np.float32)
    codes = Codes(np.zeros((1, padded(k)), np.int8), np.zeros(1, np.float32), rotation)
    steps = Steps()
    steps.quantize(scratch, codes)
    tiles = np.zeros(padded(n) * padded(k), np.int8)
    placed = tiles.reshape(padded(n) // _TILE, padded(k) // _TILE, _TILE, _TILE)
    scales = np.empty(n, np.float32)
    for row in range(n):
        read(row, scratch[0])
        steps.run(1, 0, threads)
        placed[row // _TILE, :, row % _TILE] = codes.values.reshape(-1, _TILE)
        scales[row] = codes.scales[0]
    return tiles, scales
