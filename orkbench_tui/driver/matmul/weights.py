"""Weights resident in NPU memory, as tiles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from orkbench_tui.driver import uapi
from orkbench_tui.driver.failures import OperandError
from orkbench_tui.driver.layouts import unpack_nibbles, untile_weights
from orkbench_tui.driver.matmul.formats import MatmulFormat
from orkbench_tui.driver.matmul.operands import require_values
from orkbench_tui.driver.matmul.splitting import even_parts
from orkbench_tui.driver.memory import Buffer, Memory, Slice
from orkbench_tui.errors import RefusedError

__all__ = ["KSlice", "Weight", "load_matrix", "load_tiles"]


@dataclass(frozen=True, slots=True)
class KSlice:
    """``length`` of K from ``first`` on, tiled on its own at byte ``offset``."""

    first: int
    length: int
    offset: int


@dataclass(frozen=True, slots=True, eq=False)
class Weight:
    """A weight ``[n, k]`` resident in NPU memory as tiles; ``k`` and ``n`` include the zero padding."""

    name: str
    format: MatmulFormat
    k: int
    n: int
    buffer: Buffer
    slices: tuple[KSlice, ...]

    @property
    def tiles(self) -> np.ndarray | None:
        """The CPU's view of the tiles, [n * k] of the format's memory type; None when K was split."""
        if len(self.slices) > 1:
            return None
        return self.buffer.view[: self.format.memory_bytes(self.n * self.k)].view(self.format.memory)


def load_tiles(
    memory: Memory, format: MatmulFormat, name: str, tiles: np.ndarray | memoryview | bytes, k: int, n: int
) -> Weight:
    """Copy a tiled weight into NPU memory.

    Args:
        tiles: the bytes of n * k elements, tiled over the whole K.
        k, n: padded sizes, multiples of what the format asks.

    Raises:
        OperandError: sizes that do not fit each other.
        RefusedError: K must be split but partial results of this format cannot be added.
        NoMemoryError: it does not fit the address window.
    """
    granule, group = format.precision.k_granule, format.precision.kernel_group
    if k % granule or n % group or k <= 0 or n <= 0:
        raise OperandError(
            f"weight {name}", why=f"K = {k} and N = {n} must be positive multiples of {granule} and {group}"
        )
    if isinstance(tiles, np.ndarray):
        if not tiles.flags.c_contiguous:
            raise OperandError(f"weight {name}", why=f"tiles with strides {tiles.strides} are not contiguous")
        flat = tiles.reshape(-1).view(np.uint8)
    else:
        flat = np.frombuffer(tiles, dtype=np.uint8)
    size = format.memory_bytes(n * k)
    if flat.size != size:
        raise OperandError(
            f"weight {name}", why=f"{flat.size} bytes of tiles for K = {k}, N = {n}; expected {size}"
        )
    if not format.packs_nibbles:
        require_values(format, flat.view(format.memory), f"weight {name}")
    parts = even_parts(k, -(-k // format.k_limit), granule)
    if len(parts) > 1 and not format.sums:
        raise RefusedError(
            f"{name}: K = {k} as {format.name}",
            why=f"a program takes K up to {format.k_limit}, and partial results of this format cannot be added",
            do="use a format with 32-bit results",
        )
    buffer = memory.allocate(size)
    slices = tuple(KSlice(first, length, format.memory_bytes(n * first)) for first, length in parts)
    _store_tiles(format, flat, buffer.view, slices, k, n)
    memory.sync(Slice(buffer, 0, size), uapi.SyncFlag.TO_DEVICE)
    return Weight(name, format, k, n, buffer, slices)


def load_matrix(memory: Memory, format: MatmulFormat, name: str, weights: np.ndarray) -> Weight:
    """Tile a row-major matrix [N, K] and load it; see ``load_tiles``.

    Raises:
        OperandError: not a matrix of the format's operand type, or values outside its range.
    """
    if weights.ndim != 2 or weights.dtype != format.operand or weights.size == 0:
        raise OperandError(
            f"weight {name}",
            why=f"{weights.dtype} array of shape {weights.shape}; {format.name} takes a matrix of "
            f"{np.dtype(format.operand)}",
        )
    require_values(format, weights, f"weight {name}")
    n, k = weights.shape
    padded_k, padded_n = (
        -(-size // granule) * granule
        for size, granule in ((k, format.precision.k_granule), (n, format.precision.kernel_group))
    )
    return load_tiles(memory, format, name, format.tile(weights), padded_k, padded_n)


def _store_tiles(
    format: MatmulFormat, tiles: np.ndarray, view: np.ndarray, slices: Sequence[KSlice], k: int, n: int
) -> None:
    """Tiles of the whole K into a buffer, re-tiled by slice where K is split."""
    if len(slices) == 1:
        view[: tiles.size] = tiles
        return
    elements = unpack_nibbles(tiles) if format.packs_nibbles else tiles.view(format.memory)
    rows = untile_weights(format.precision, elements, n, k)
    for part in slices:
        data = format.tile(rows[:, part.first : part.first + part.length])
        view[part.offset : part.offset + data.size] = data
