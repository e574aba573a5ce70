"""Weights resident in NPU memory, as tiles: in one native buffer, or in imported chunks.

A chunk is bounded in size and holds whole column groups, so that every program still finds its columns in
one place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from orkbench_tui.driver import uapi
from orkbench_tui.driver.failures import OperandError
from orkbench_tui.driver.importer import (
    MAX_CHAIN_MAPPINGS,
    Importer,
    Overflow,
    chunk_units,
    require_chain_mappings,
)
from orkbench_tui.driver.layouts import unpack_nibbles, untile_weights
from orkbench_tui.driver.matmul.formats import MatmulFormat
from orkbench_tui.driver.matmul.operands import require_values
from orkbench_tui.driver.matmul.splitting import even_parts
from orkbench_tui.driver.memory import Buffer, Memory, Slice
from orkbench_tui.errors import RefusedError

__all__ = ["KSlice", "Piece", "Weight", "column_view", "load_matrix", "load_tiles", "refill_tiles"]


@dataclass(frozen=True, slots=True)
class KSlice:
    """``length`` of K from ``first`` on, tiled on its own at byte ``offset``."""

    first: int
    length: int
    offset: int


@dataclass(frozen=True, slots=True)
class Piece:
    """Columns ``[column, column + width)`` of K slice ``part``, in an imported chunk."""

    part: int
    column: int
    width: int
    place: Slice


@dataclass(frozen=True, slots=True, eq=False)
class Weight:
    """A weight ``[n, k]`` resident in NPU memory as tiles; ``k`` and ``n`` include the zero padding.

    Without ``pieces`` all of it lies in ``buffer``; else ``buffer`` is the first of its chunks.
    """

    name: str
    format: MatmulFormat
    k: int
    n: int
    buffer: Buffer
    slices: tuple[KSlice, ...]
    pieces: tuple[Piece, ...] = ()

    @property
    def domain(self) -> int:
        return self.buffer.domain

    @property
    def buffers(self) -> tuple[Buffer, ...]:
        """Every buffer that holds a part of it."""
        if not self.pieces:
            return (self.buffer,)
        return tuple({piece.place.buffer.handle: piece.place.buffer for piece in self.pieces}.values())

    def spans(self, part: int, column: int, width: int) -> list[tuple[int, int, Slice]]:
        """Columns of a K slice, cut where they lie apart: (column, width, tiles)."""
        length = self.slices[part].length
        if not self.pieces:
            start = self.slices[part].offset + self.format.memory_bytes(column * length)
            return [(column, width, Slice(self.buffer, start, self.format.memory_bytes(width * length)))]
        found = []
        for piece in self.pieces:
            first = max(column, piece.column)
            last = min(column + width, piece.column + piece.width)
            if piece.part == part and first < last:
                start = piece.place.offset + self.format.memory_bytes((first - piece.column) * length)
                size = self.format.memory_bytes((last - first) * length)
                found.append((first, last - first, Slice(piece.place.buffer, start, size)))
        return found

    @property
    def tiles(self) -> np.ndarray | None:
        """The CPU's view of the tiles, [n * k] of the format's memory type; None when they lie apart."""
        if len(self.slices) > 1 or len(self.buffers) > 1:
            return None
        start = self.pieces[0].place.offset if self.pieces else self.slices[0].offset
        size = self.format.memory_bytes(self.n * self.k)
        return self.buffer.view[start : start + size].view(self.format.memory)


def column_view(weight: Weight, column: int, width: int) -> Weight:
    """Columns of a weight as a weight of their own, in the same memory.

    Raises:
        OperandError: not whole kernel groups within it.
    """
    format, group = weight.format, weight.format.precision.kernel_group
    if column % group or width % group or column < 0 or width <= 0 or column + width > weight.n:
        raise OperandError(
            f"columns {column} to {column + width} of {weight.name}",
            why=f"allowed: whole groups of {group} within {weight.n}",
        )
    slices = tuple(
        replace(part, offset=part.offset + format.memory_bytes(column * part.length))
        for part in weight.slices
    )
    pieces = tuple(
        Piece(part, first - column, count, place)
        for part in (range(len(weight.slices)) if weight.pieces else ())
        for first, count, place in weight.spans(part, column, width)
    )
    buffer = pieces[0].place.buffer if pieces else weight.buffer
    return Weight(weight.name, format, weight.k, width, buffer, slices, pieces)


def load_tiles(
    memory: Memory,
    format: MatmulFormat,
    name: str,
    tiles: np.ndarray | memoryview | bytes,
    k: int,
    n: int,
    *,
    domain: int = 0,
    importer: Importer | None = None,
    k_limit: int | None = None,
) -> Weight:
    """Copy a tiled weight into NPU memory.

    Args:
        tiles: the bytes of n * k elements, tiled over the whole K.
        k, n: padded sizes, multiples of what the format asks.
        importer: put it into imported chunks, unless there would be too many for one chain.
        k_limit: what the chip takes of K in one program, where that is less than the format's.

    Raises:
        OperandError: sizes that do not fit each other.
        RefusedError: K must be split but partial results of this format cannot be added; or too many
            chunks where the importer's settings refuse that.
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
    limit = min(format.k_limit, k_limit or format.k_limit)
    parts = even_parts(k, -(-k // limit), granule)
    if len(parts) > 1 and not format.sums:
        raise RefusedError(
            f"{name}: K = {k} as {format.name}",
            why=f"a program takes K up to {limit}, and partial results of this format cannot be added",
            do="use a format with 32-bit results",
        )
    slices = tuple(KSlice(first, length, format.memory_bytes(n * first)) for first, length in parts)
    runs = [] if importer is None else _chunk_runs(importer, format, name, slices, n)
    if importer is None or not runs:
        buffer = memory.allocate(size, domain=domain)
        _store_tiles(format, flat, buffer.view, slices, k, n)
        memory.sync(Slice(buffer, 0, size), uapi.SyncFlag.TO_DEVICE)
        return Weight(name, format, k, n, buffer, slices)
    staged = flat
    if len(slices) > 1:
        staged = np.empty(size, dtype=np.uint8)
        _store_tiles(format, flat, staged, slices, k, n)
    pieces = _import_chunks(memory, importer, format, staged, slices, n, runs, domain)
    return Weight(name, format, k, n, pieces[0].place.buffer, slices, tuple(pieces))


def refill_tiles(memory: Memory, weight: Weight, tiles: np.ndarray) -> None:
    """Another weight of the same shape into the same place, for everything that was compiled with it.

    No run of it may be under way.

    Raises:
        OperandError: tiles of another size, or a weight in imported chunks.
    """
    format, size = weight.format, weight.format.memory_bytes(weight.n * weight.k)
    flat = np.ascontiguousarray(tiles).reshape(-1).view(np.uint8)
    if weight.pieces or flat.size != size:
        where = "imported chunks" if weight.pieces else f"{size} bytes"
        raise OperandError(f"refilling {weight.name}", why=f"{flat.size} bytes of tiles into {where}")
    if not format.packs_nibbles:
        require_values(format, flat.view(format.memory), f"weight {weight.name}")
    _store_tiles(format, flat, weight.buffer.view, weight.slices, weight.k, weight.n)
    memory.sync(Slice(weight.buffer, 0, size), uapi.SyncFlag.TO_DEVICE)


def _units(format: MatmulFormat, slices: Sequence[KSlice], n: int) -> list[tuple[int, int]]:
    """(K slice, bytes) of every column group, in the order tiles lie in."""
    group = format.precision.kernel_group
    return [
        (index, format.memory_bytes(group * part.length))
        for index, part in enumerate(slices)
        for _ in range(n // group)
    ]


def _chunk_runs(
    importer: Importer, format: MatmulFormat, name: str, slices: Sequence[KSlice], n: int
) -> list[tuple[int, int]]:
    """Which column groups go into which chunk; nothing when the weight is to be loaded natively."""
    units = [size for _, size in _units(format, slices, n)]
    runs = chunk_units(units, importer.settings.chunk_bytes)
    if len(runs) > MAX_CHAIN_MAPPINGS:
        if importer.settings.overflow is Overflow.NATIVE:
            return []
        require_chain_mappings(len(runs), f"weight {name}")
    return runs


def _import_chunks(
    memory: Memory,
    importer: Importer,
    format: MatmulFormat,
    staged: np.ndarray,
    slices: Sequence[KSlice],
    n: int,
    runs: Sequence[tuple[int, int]],
    domain: int,
) -> list[Piece]:
    """One import and one sync per run; nothing stays behind when one of them fails."""
    units, group = _units(format, slices, n), format.precision.kernel_group
    pieces: list[Piece] = []
    made: list[Buffer] = []
    start = 0
    try:
        for first, count in runs:
            size = sum(size for _, size in units[first : first + count])
            chunk = importer.allocate(size, domain)
            made.append(chunk)
            chunk.view[:size] = staged[start : start + size]
            memory.sync(chunk, uapi.SyncFlag.TO_DEVICE)
            offset = 0
            for part in range(len(slices)):
                mine = [index for index in range(first, first + count) if units[index][0] == part]
                if mine:
                    width = group * len(mine)
                    length = format.memory_bytes(width * slices[part].length)
                    column = group * mine[0] - part * n
                    pieces.append(Piece(part, column, width, Slice(chunk, offset, length)))
                    offset += length
            start += size
    except BaseException:
        for chunk in made:
            memory.free(chunk)
        raise
    return pieces


def load_matrix(
    memory: Memory,
    format: MatmulFormat,
    name: str,
    weights: np.ndarray,
    *,
    domain: int = 0,
    importer: Importer | None = None,
    k_limit: int | None = None,
) -> Weight:
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
    tiles = format.tile(weights)
    return load_tiles(
        memory, format, name, tiles, padded_k, padded_n, domain=domain, importer=importer, k_limit=k_limit
    )


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
