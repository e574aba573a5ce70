"""Any int8 shape through the linked path: cut into tiles that each keep its limits.

The path takes K in multiples of 512 up to 4096, which most wide layers miss. K is padded with zeros and cut
into slices whose sums the host adds in int32, N and M are cut too, and the tiles are dealt over the cores.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from orkbench_tui.driver.chain import Chain, RoundRobinChains
from orkbench_tui.driver.context import Context
from orkbench_tui.driver.failures import OperandError
from orkbench_tui.driver.matmul.formats import INT8
from orkbench_tui.driver.matmul.operands import require_array
from orkbench_tui.driver.matmul.splitting import even_parts, row_tiles
from orkbench_tui.driver.matmul.weights import Weight, load_matrix
from orkbench_tui.driver.soc import Soc
from orkbench_tui.driver.task_rules import FULL_K_GRANULE, FULL_K_LIMIT, MAX_STEPS, ChainTask

__all__ = ["SlicedMatmul", "SlicedWeight", "Tile", "load_sliced", "slice_plan"]

MAX_ROWS = 64


@dataclass(frozen=True, slots=True)
class Tile:
    """Rows, K slice and columns of one task, as (start, length)."""

    rows: tuple[int, int]
    k: tuple[int, int]
    columns: tuple[int, int]


def slice_plan(
    soc: Soc, m: int, k: int, n: int
) -> tuple[list[tuple[int, int]], list[tuple[int, int]], list[tuple[int, int]]]:
    """Row tiles, K slices of the padded K, and column tiles of the padded N.

    Column tiles are as many as cores where N is wide enough, equal to a kernel group, and none above the
    field. Every element is in exactly one row tile and column tile, every product in one K slice.

    Raises:
        OperandError: a size below 1.
    """
    if min(m, k, n) < 1:
        raise OperandError("slicing a matmul", why=f"{m}x{k} by {k}x{n}; allowed: sizes from 1 on")
    group = INT8.precision.kernel_group
    padded_k = -(-k // FULL_K_GRANULE) * FULL_K_GRANULE
    padded_n = -(-n // group) * group
    slices = even_parts(padded_k, -(-padded_k // FULL_K_LIMIT), FULL_K_GRANULE)
    count = max(soc.cores, -(-padded_n // soc.max_n_per_program))
    columns = even_parts(padded_n, count, group)
    while columns[0][1] > soc.max_n_per_program:
        count += 1
        columns = even_parts(padded_n, count, group)
    return row_tiles(m, MAX_ROWS), slices, columns


@dataclass(frozen=True, slots=True, eq=False)
class SlicedWeight:
    """``parts[column tile][K slice]``; ``k`` and ``n`` are the caller's."""

    name: str
    k: int
    n: int
    slices: tuple[tuple[int, int], ...]
    columns: tuple[tuple[int, int], ...]
    parts: tuple[tuple[Weight, ...], ...]


def load_sliced(context: Context, name: str, weights: np.ndarray) -> SlicedWeight:
    """An int8 matrix [n, k] of any shape, one weight per column tile and K slice.

    Raises:
        OperandError: not an int8 matrix.
        NoMemoryError: it does not fit; what was loaded is freed.
    """
    if weights.ndim != 2 or weights.dtype != np.int8 or not weights.size:
        raise OperandError(
            f"weight {name}", why=f"{weights.dtype} array of shape {weights.shape}; allowed: an int8 matrix"
        )
    n, k = weights.shape
    _, slices, columns = slice_plan(context.soc, 1, k, n)
    padded = np.zeros((sum(columns[-1]), sum(slices[-1])), np.int8)
    padded[:n, :k] = weights
    loaded: list[Weight] = []
    try:
        for column, width in columns:
            for first, length in slices:
                part = np.ascontiguousarray(padded[column : column + width, first : first + length])
                loaded.append(load_matrix(context.memory, INT8, f"{name}, K {first}, N {column}", part))
    except BaseException:
        for weight in loaded:
            context.memory.free(weight.buffer)
        raise
    count = len(slices)
    parts = tuple(tuple(loaded[at : at + count]) for at in range(0, len(loaded), count))
    return SlicedWeight(name, k, n, tuple(slices), tuple(columns), parts)


class SlicedMatmul:
    """``a`` int8 [rows, k] by a sliced weight, int32 [rows, n], over all cores.

    Raises:
        OperandError: no rows.
        LifetimeError: a part of the weight was freed.
    """

    def __init__(self, context: Context, weight: SlicedWeight, rows: int) -> None:
        if rows < 1:
            raise OperandError("sliced matmul", why=f"{rows} rows; at least 1 is needed")
        self.weight, self.rows = weight, rows
        self._tiles = list(self._cut())
        self._chains: list[Chain] = []
        try:
            for run in self._runs(context.soc.cores):
                tasks = [ChainTask(self._part(tile), tile.rows[1]) for tile in run]
                self._chains.append(Chain(context, tasks))
        except BaseException:
            self.close()
            raise
        self._all = RoundRobinChains(context, self._chains)

    def _cut(self) -> Iterator[Tile]:
        for columns in self.weight.columns:
            for rows in row_tiles(self.rows, MAX_ROWS):
                for part in self.weight.slices:
                    yield Tile(rows, part, columns)

    def _part(self, tile: Tile) -> Weight:
        weight = self.weight
        return weight.parts[weight.columns.index(tile.columns)][weight.slices.index(tile.k)]

    def _runs(self, cores: int) -> list[list[Tile]]:
        """Tiles in as many chains as cores, and more where one would take too many programs."""
        # A tile of up to 64 rows of K up to 4096 is one program.
        count = max(min(cores, len(self._tiles)), -(-len(self._tiles) // MAX_STEPS))
        return [
            self._tiles[start : start + length] for start, length in even_parts(len(self._tiles), count, 1)
        ]

    @property
    def tasks(self) -> int:
        return len(self._tiles)

    def run(self, a: np.ndarray) -> np.ndarray:
        """Compute; int32 [rows, n], a new array.

        Raises:
            OperandError: another type or shape.
            UnhealthyError: a job timed out.
        """
        weight = self.weight
        require_array(a, (self.rows, weight.k), INT8.operand, "activation")
        padded = np.zeros((self.rows, sum(weight.slices[-1])), np.int8)
        padded[:, : weight.k] = a
        tiles = iter(self._tiles)
        for chain in self._chains:
            for array in chain.activations:
                tile = next(tiles)
                (row, height), (first, length) = tile.rows, tile.k
                array[:] = padded[row : row + height, first : first + length]
        self._all.run()
        total = np.zeros((self.rows, sum(weight.columns[-1])), np.int32)
        outputs = (output for chain in self._chains for output in chain.outputs)
        for tile, output in zip(self._tiles, outputs, strict=True):
            (row, height), (column, width) = tile.rows, tile.columns
            total[row : row + height, column : column + width] += output
        return total[:, : weight.n]

    def close(self) -> None:
        """Give the memory back; the weight stays."""
        for chain in self._chains:
            chain.close()
        self._chains = []
