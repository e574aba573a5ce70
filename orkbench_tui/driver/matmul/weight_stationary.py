"""What keeping weights in a core would gain over reading them again per row tile: a published model.

Its constants are the roadmap's: 11 GB/s, a buffer of 57,344 elements, row tiles of 36 for the flow it is
compared with. They are no chip limits (``soc``), and the buffer is smaller than the chip's; the outcome is
kept as it was published. All figures it gives are predictions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from orkbench_tui.driver import guards

__all__ = [
    "K_SLICE_TIME_RATIO",
    "Accumulate",
    "StationaryTiling",
    "best_tiling",
    "row_tile_flow_bytes",
    "speedup",
]

_BYTES_PER_S = 11e9
_BUFFER = 57344
_WEIGHT_PART = _BUFFER * 10 // 12
_DATA_PART = _BUFFER * 2 // 12
_ROW_TILE = 36
_K_STEP = 64

K_SLICE_TIME_RATIO = {2: 0.96, 4: 0.65, 8: 0.39}
"""Published speed of a matmul cut into slices of K, in parts of the uncut one: the output stage runs once
per slice, so adding up on the chip could not win it back."""


class Accumulate(StrEnum):
    """Where partial sums of K tiles are kept. Nobody has shown that a core keeps them between programs."""

    CHIP = "chip"
    DRAM = "dram"


@dataclass(frozen=True, slots=True)
class StationaryTiling:
    """Tiles of ``k_tile`` x ``n_tile`` weights; ``seconds`` is the longer of traffic and tile cost."""

    k_tile: int
    n_tile: int
    m_tile: int
    tiles: int
    traffic_bytes: int
    seconds: float


def row_tile_flow_bytes(m: int, k: int, n: int) -> int:
    """Bytes of the flow that reads all weights once per tile of 36 rows."""
    return -(-m // _ROW_TILE) * k * n + m * k + 4 * m * n


def _tilings(m: int, k: int, n: int, tile_us: float, where: Accumulate) -> Iterator[StationaryTiling]:
    for k_tile in range(_K_STEP, min(k, _DATA_PART) + 1, _K_STEP):
        if k % k_tile:
            continue
        n_tile, m_tile = min(_WEIGHT_PART // k_tile, n), min(_DATA_PART // k_tile, _ROW_TILE)
        k_tiles, n_tiles = k // k_tile, -(-n // n_tile)
        tiles = k_tiles * n_tiles * -(-m // m_tile)
        results = 4 * m * n if where is Accumulate.CHIP else 2 * k_tiles * 4 * m * n
        traffic = k * n + n_tiles * m * k + results
        yield StationaryTiling(
            k_tile, n_tile, m_tile, tiles, traffic, max(traffic / _BYTES_PER_S, tiles * tile_us * 1e-6)
        )


def best_tiling(m: int, k: int, n: int, tile_us: float, where: Accumulate) -> StationaryTiling:
    """The fastest tiling at ``tile_us`` per tile; ``k`` is a multiple of 64.

    Raises:
        ValueError: another K, or a size below 1.
    """
    if k % _K_STEP or min(m, k, n) < 1:
        raise ValueError(f"{m}x{k} by {k}x{n}: sizes from 1 on, K a multiple of {_K_STEP}")
    return min(_tilings(m, k, n, tile_us, where), key=lambda tiling: tiling.seconds)


def speedup(m: int, k: int, n: int, tile_us: float, where: Accumulate) -> tuple[float, str]:
    """Predicted speed over the row tile flow, and the warning (GRD-48) of the form that loses; else ""."""
    ratio = row_tile_flow_bytes(m, k, n) / _BYTES_PER_S / best_tiling(m, k, n, tile_us, where).seconds
    if where is Accumulate.CHIP:
        return ratio, ""
    return ratio, guards.warning("GRD-48", seen=f"{ratio:.2f} of the speed for {m}x{k} by {k}x{n}")
