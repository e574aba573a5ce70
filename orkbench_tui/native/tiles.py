"""int8 weights in the tile layout every part of the program shares.

``[N/32][K/32][32 n][32 k]`` int8, K and N padded with zeros to multiples of 32: byte (n, k) lies at
``(n//32)*32*K + (k//32)*1024 + (n%32)*32 + k%32`` with the padded K.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from orkbench_tui.native.library import address, available_threads, ffi, lib, require
from orkbench_tui.native.rotation import check_rotation

__all__ = ["inflate_tiles", "pack_tiles", "padded", "quantize_weights"]

TILE = 32
MAX_THREADS = 64


def padded(size: int) -> int:
    """``size`` rounded up to a whole number of tiles."""
    return -(-size // TILE) * TILE


def _room(n: int, k: int, tiles: NDArray[np.int8] | None) -> NDArray[np.int8]:
    size = padded(n) * padded(k)
    return np.empty(size, np.int8) if tiles is None else require(tiles, np.int8, (size,), "tiles")


def _check(status: int) -> None:
    if status:
        raise MemoryError("no memory to pack a weight")


def pack_tiles(
    codes: NDArray[np.int8], *, out: NDArray[np.int8] | None = None, threads: int | None = None
) -> NDArray[np.int8]:
    """Row-major int8 ``[N, K]`` to tiles, 1-D int8 of padded(N) * padded(K) bytes."""
    require(codes, np.int8, (None, None), "codes")
    n, k = codes.shape
    tiles = _room(n, k, out)
    status = lib.ork_pack_tiles(
        address(codes, "int8_t *"), n, k, address(tiles, "int8_t *"), threads or available_threads()
    )
    _check(status)
    return tiles


def quantize_weights(
    weights: NDArray[np.float32],
    *,
    rotation: int = 0,
    out: NDArray[np.int8] | None = None,
    threads: int | None = None,
) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """Float ``[N, K]``, each row rotated in blocks of ``rotation`` unless 0, to (tiles, scales float32 [N]).

    Scale of a row: absmax / 127, 1 for a row of zeros, NaN for a row that holds a value that is not
    finite. Code: w / scale rounded half away from zero, within ±127.
    """
    require(weights, np.float32, (None, None), "weights")
    n, k = weights.shape
    if rotation:
        check_rotation(k, rotation)
    tiles = _room(n, k, out)
    scales = np.empty(n, np.float32)
    status = lib.ork_quantize_weights(
        address(weights, "float *"),
        n,
        k,
        rotation,
        address(tiles, "int8_t *"),
        address(scales, "float *"),
        threads or available_threads(),
    )
    _check(status)
    return tiles, scales


def inflate_tiles(
    nibbles: NDArray[np.uint8],
    levels: NDArray[np.int8],
    multipliers: NDArray[np.int8] | None = None,
    *,
    threads: int | None = None,
) -> NDArray[np.int8]:
    """4-bit codes ``[N, K / 2]`` (even k in the low nibble) to int8 tiles of padded(N) * K bytes.

    ``levels`` int8 [16] says what a code is. With ``multipliers`` int8 [N, K / G] it is
    ``(level * multiplier + 64) >> 7`` of its group. K is a multiple of 32, G even.
    """
    require(nibbles, np.uint8, (None, None), "codes")
    require(levels, np.int8, (16,), "levels")
    n, k = len(nibbles), nibbles.shape[1] * 2
    group = k
    if multipliers is not None:
        require(multipliers, np.int8, (n, None), "multipliers")
        group = k // max(1, multipliers.shape[1])
        if group % 2 or group * multipliers.shape[1] != k:
            raise ValueError(f"{multipliers.shape[1]} multipliers for rows of {k}")
    if k % TILE:
        raise ValueError(f"rows of {k} codes are no whole tiles")
    count = min(threads or available_threads(), MAX_THREADS)
    size = padded(n) * k
    tiles = np.empty(size + count * k, np.int8)
    lib.ork_inflate_tiles(
        address(nibbles, "uint8_t *"),
        ffi.NULL if multipliers is None else address(multipliers, "int8_t *"),
        address(levels, "int8_t *"),
        n,
        k,
        group,
        address(tiles, "int8_t *"),
        count,
    )
    return tiles[:size]
