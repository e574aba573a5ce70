"""Matmuls on the NPU: weights loaded once, programs compiled once per shape, then re-run.

A call compiles for a fixed number of rows and for one or several weights that share the activation
(q, k and v; gate and up). Per run only the activation is refreshed: sync A to the device, run, sync C
back. Row-major formats hand A and C over in place; cube formats are packed around the run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from orkbench_tui.driver import uapi
from orkbench_tui.driver.layouts import unpack_nibbles, untile_weights
from orkbench_tui.driver.matmul.assembly import Program, ProgramStore
from orkbench_tui.driver.matmul.formats import MatmulFormat
from orkbench_tui.driver.matmul.placement import Block, Placement, placement_for
from orkbench_tui.driver.matmul.splitting import column_segments, even_parts, row_tiles
from orkbench_tui.driver.memory import Buffer, Memory, Slice
from orkbench_tui.driver.regcmd.programs import MatmulShape, OutputConversion, matmul_body
from orkbench_tui.driver.soc import Soc
from orkbench_tui.driver.submit import Submitter
from orkbench_tui.errors import RefusedError

__all__ = ["Matmul", "MatmulCompiler", "Weight"]


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


def _result_blocks(soc: Soc, placement: Placement, weights: Sequence[Weight], rows: int) -> list[Block]:
    format = weights[0].format
    blocks = []
    start = 0
    for index, weight in enumerate(weights):
        for part in range(len(weight.slices)):
            for column, width in even_parts(
                weight.n, -(-weight.n // placement.widest_block(soc)), format.precision.kernel_group
            ):
                blocks.append(Block(index, part, column, width, start))
                start += rows * width * format.precision.output_bytes
    return blocks


class Matmul:
    """A compiled ``C_i = A x B_i`` for fixed rows and weights.

    ``a`` is the operand [rows, k], to be filled before ``run``; ``outputs`` are [rows, n_i], valid
    from ``run`` until the next run of any matmul of the same NPU.
    """

    def __init__(
        self, compiler: MatmulCompiler, weights: Sequence[Weight], rows: int, convert: OutputConversion | None
    ) -> None:
        format = weights[0].format
        if any(weight.format is not format for weight in weights):
            raise ValueError(
                f"weights of one matmul must share their format, not {[w.format.name for w in weights]}"
            )
        if len({tuple((s.first, s.length) for s in weight.slices) for weight in weights}) != 1:
            raise ValueError("weights of one matmul must share K")
        self._compiler = compiler
        self.format = format
        self.rows = rows
        self.k = weights[0].k
        self.weights = tuple(weights)
        self._convert = convert
        self._placement = placement_for(format, rows, self.k)
        self._blocks = _result_blocks(compiler.soc, self._placement, weights, rows)
        operand_bytes = format.memory_bytes(rows * self.k)
        result_bytes = sum(rows * block.width for block in self._blocks) * format.precision.output_bytes
        self._a = Slice(compiler.scratch("a", operand_bytes), 0, operand_bytes)
        self._c = Slice(compiler.scratch("c", result_bytes), 0, result_bytes)
        self.a = self._placement.a_array(self._a.view)
        self.outputs = tuple(self._output(index) for index in range(len(weights)))
        self._jobs, self._pieces = compiler.programs.assemble(self._programs())

    @property
    def tasks(self) -> int:
        """Programs one run executes."""
        return sum(job.tasks for job in self._jobs)

    def _output(self, index: int) -> np.ndarray:
        """The result in place where one block holds it, else an array that ``run`` fills."""
        blocks = [block for block in self._blocks if block.weight == index]
        if len(blocks) == 1 and self._placement.in_place:
            return self._placement.result(self._c.view, blocks[0])
        return np.empty((self.rows, self.weights[index].n), dtype=self.format.total)

    def _programs(self) -> list[Program]:
        soc, format, place = self._compiler.soc, self.format, self._placement
        programs = []
        for block in self._blocks:
            weight = self.weights[block.weight]
            part = weight.slices[block.part]
            for row, height in row_tiles(self.rows, format.rows_cap(soc, part.length, block.width)):
                for column, width in column_segments(soc, format.precision, block.width, soc.cores):
                    shape = MatmulShape(
                        rows=height,
                        k=part.length,
                        n=width,
                        a=self._a.iova + place.a_offset(row, part.first),
                        b=weight.buffer.iova
                        + part.offset
                        + format.memory_bytes((block.column + column) * part.length),
                        c=self._c.iova + place.c_offset(block, row, column),
                        data_banks=format.banks(soc, height, part.length),
                        **place.shape_fields(block),
                    )
                    body = matmul_body(soc, format.precision, format.geometry, shape, self._convert)
                    programs.append(Program(body, cost=part.length * width * (height + 64)))
        return programs

    def run(self) -> None:
        """Compute all outputs from ``a``, streaming the programs over all cores.

        Raises:
            UnhealthyError, NoDeviceError: see ``Submitter.run_on``; the outputs are void then.
        """
        self._bracketed(lambda: self._compiler.submitter.stream(self._jobs))

    def run_on(self, core: int) -> None:
        """The same on one core, one blocking job after the other."""

        def jobs() -> None:
            for job in self._jobs:
                self._compiler.submitter.run_on(core, job)

        self._bracketed(jobs)

    def _bracketed(self, submit: Callable[[], None]) -> None:
        memory = self._compiler.memory
        self._placement.store_a(self.a, self._a.view)
        memory.sync(self._a, uapi.SyncFlag.TO_DEVICE)
        submit()
        memory.sync(self._c, uapi.SyncFlag.FROM_DEVICE)
        self._gather()
        self._compiler.after_run()

    def _gather(self) -> None:
        """Blocks that are not in place into the outputs; K slices are added up."""
        for block in self._blocks:
            output = self.outputs[block.weight]
            result = self._placement.result(self._c.view, block)
            if np.may_share_memory(output, result) and not block.part:
                continue
            target = output[:, block.column : block.column + block.width]
            if block.part:
                target += result
            else:
                target[:] = result

    def close(self) -> None:
        """Give the program memory back; the object must not be run afterwards."""
        if self._jobs:
            self._compiler.programs.release(self._pieces)
            self._jobs = []


class MatmulCompiler:
    """Loads weights and compiles matmuls on one device; ``after_run`` is called after every run."""

    def __init__(self, soc: Soc, memory: Memory, submitter: Submitter, after_run: Callable[[], None]) -> None:
        self.after_run = after_run
        self.soc = soc
        self.memory = memory
        self.submitter = submitter
        self.programs = ProgramStore(soc, memory)
        self._scratch: dict[str, Buffer] = {}

    def load(
        self, format: MatmulFormat, name: str, tiles: np.ndarray | memoryview | bytes, k: int, n: int
    ) -> Weight:
        """Copy a tiled weight into NPU memory.

        Args:
            tiles: the bytes of n * k elements, tiled over the whole K.
            k, n: padded sizes, multiples of what the format asks.

        Raises:
            ValueError: sizes that do not fit each other.
            RefusedError: K must be split but partial results of this format cannot be added.
            NoMemoryError: it does not fit the address window.
        """
        flat = (
            tiles.reshape(-1).view(np.uint8)
            if isinstance(tiles, np.ndarray)
            else np.frombuffer(tiles, dtype=np.uint8)
        )
        granule, group = format.precision.k_granule, format.precision.kernel_group
        if k % granule or n % group or k <= 0 or n <= 0:
            raise ValueError(
                f"{name}: K = {k} and N = {n} must be positive multiples of {granule} and {group}"
            )
        size = format.memory_bytes(n * k)
        if flat.size != size:
            raise ValueError(f"{name}: {flat.size} bytes of tiles for K = {k}, N = {n}; expected {size}")
        parts = even_parts(k, -(-k // format.k_limit), granule)
        if len(parts) > 1 and not format.sums:
            raise RefusedError(
                f"{name}: K = {k} as {format.name}",
                why=f"a program takes K up to {format.k_limit}, and partial results of this format cannot be added",
                do="use a format with 32-bit results",
            )
        buffer = self.memory.allocate(size)
        slices = tuple(KSlice(first, length, format.memory_bytes(n * first)) for first, length in parts)
        _store_tiles(format, flat, buffer.view, slices, k, n)
        self.memory.sync(Slice(buffer, 0, size), uapi.SyncFlag.TO_DEVICE)
        return Weight(name, format, k, n, buffer, slices)

    def load_matrix(self, format: MatmulFormat, name: str, weights: np.ndarray) -> Weight:
        """Tile a row-major matrix [N, K] and load it; see ``load``.

        Raises:
            ValueError: not a matrix of the format's operand type, or values outside its range.
        """
        if weights.ndim != 2 or weights.dtype != format.operand or weights.size == 0:
            raise ValueError(
                f"{name}: {weights.dtype} array of shape {weights.shape}; {format.name} takes a matrix of {np.dtype(format.operand)}"
            )
        if format.low is not None and format.high is not None:
            low, high = int(weights.min()), int(weights.max())
            if low < format.low or high > format.high:
                raise ValueError(
                    f"{name}: codes {low} to {high}, {format.name} takes {format.low} to {format.high}"
                )
        n, k = weights.shape
        padded_k, padded_n = (
            -(-size // granule) * granule
            for size, granule in ((k, format.precision.k_granule), (n, format.precision.kernel_group))
        )
        return self.load(format, name, format.tile(weights), padded_k, padded_n)

    def compile(
        self, weights: Sequence[Weight], rows: int, convert: OutputConversion | None = None
    ) -> Matmul:
        """A matmul of ``rows`` rows against weights that share format and K.

        Raises:
            ValueError: no weights, no rows, or different K or formats.
            RefusedError: a shape the chip cannot run.
        """
        if not weights or rows < 1:
            raise ValueError(f"{len(weights)} weights and {rows} rows; both must be at least 1")
        return Matmul(self, weights, rows, convert)

    def scratch(self, use: str, size: int) -> Buffer:
        """The shared buffer of a use, at least ``size`` bytes.

        Addresses are compiled into programs, so a buffer is never moved: a larger need gets a larger
        buffer beside it, and sizes grow by powers of two to keep their number small.
        """
        rounded = max(uapi.PAGE, 1 << (size - 1).bit_length())
        key = f"{use}{rounded}"
        if key not in self._scratch:
            self._scratch[key] = self.memory.allocate(rounded)
        return self._scratch[key]


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
