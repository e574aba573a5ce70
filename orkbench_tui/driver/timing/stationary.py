"""Weight-stationary tiling against the fold that streams every weight for each tile of rows.

The buffer of 57344 elements is the one the published model assumed; the chip's is 12 banks of 32 KiB.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["FOLD_ROWS", "Stationary", "fold_tiles", "stationary"]

FOLD_ROWS = 36
_RATE = 11.0
_BUFFER = 57344
_WEIGHTS, _FEATURES = _BUFFER * 10 // 12, _BUFFER * 2 // 12
_K_STEP = 64


@dataclass(frozen=True, slots=True)
class Stationary:
    """``gain``: the fold's time over the best tiling's, of ``tiles`` tiles with K cut at ``k_tile``."""

    gain: float
    tiles: int
    k_tile: int


def fold_tiles(M: int) -> int:
    return -(-M // FOLD_ROWS)


def _fold_ns(M: int, K: int, N: int) -> float:
    return (fold_tiles(M) * K * N + M * K + 4 * M * N) / _RATE


def stationary(M: int, K: int, N: int, tile_ns: float, sums: Literal["chip", "dram"]) -> Stationary:
    """The best tiling of (M, K, N) when each tile costs at least ``tile_ns`` in a chain.

    Args:
        sums: where partial sums over K stay, on the chip or in memory.

    Raises:
        ValueError: K is no multiple of 64.
    """
    best: Stationary | None = None
    for k_tile in range(_K_STEP, K + 1, _K_STEP):
        n_tile, m_tile = min(_WEIGHTS // k_tile, N), min(_FEATURES // k_tile, FOLD_ROWS)
        if K % k_tile or not n_tile or not m_tile:
            continue
        parts_k, parts_n = K // k_tile, -(-N // n_tile)
        tiles = parts_k * parts_n * -(-M // m_tile)
        written = 4 * M * N if sums == "chip" else 2 * parts_k * 4 * M * N
        time = max((K * N + parts_n * M * K + written) / _RATE, tiles * tile_ns)
        found = Stationary(_fold_ns(M, K, N) / time, tiles, k_tile)
        if best is None or found.gain > best.gain:
            best = found
    if best is None:
        raise ValueError(f"K = {K} has no tile that is a multiple of {_K_STEP}")
    return best
