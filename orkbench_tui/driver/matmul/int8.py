"""int8 matmuls on the NPU: weights loaded once, programs compiled once per shape, then re-run.

A call compiles for a fixed number of rows and for one or several weights that share the activation
(q, k and v; gate and up). Per run only the activation is refreshed: sync A to the device, run, sync C
back. Activations and results are row-major, so no host repacking happens around a run.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from orkbench_tui.driver import uapi
from orkbench_tui.driver.layouts import tile_weights, untile_weights
from orkbench_tui.driver.matmul.splitting import (
    column_segments,
    even_parts,
    feature_banks,
    k_slices,
    max_rows,
    row_tiles,
)
from orkbench_tui.driver.memory import Arena, Buffer, Memory, Slice
from orkbench_tui.driver.regcmd.programs import BODY_WORDS, INT8_TO_INT32, MatmulShape, matmul_body
from orkbench_tui.driver.regcmd.registers import INT_CLEAR_ALL, INT_DPU, Enable
from orkbench_tui.driver.regcmd.words import TRAILER_WORDS, link
from orkbench_tui.driver.soc import Soc
from orkbench_tui.driver.submit import Job, Submitter

__all__ = ["Int8Compiler", "Int8Matmul", "Int8Weight"]

_P = INT8_TO_INT32
_PROGRAM_BYTES = 8 * (BODY_WORDS + TRAILER_WORDS)
_TASK_BYTES = ctypes.sizeof(uapi.Task)
_TASK_ALIGN = math.lcm(_TASK_BYTES, 64)


@dataclass(frozen=True, slots=True, eq=False)
class Int8Weight:
    """A weight ``[n, k]`` resident in NPU memory as tiles; ``k`` and ``n`` include the zero padding.

    ``slices`` are ``(first k, length, byte offset)`` of the K slices, each tiled on its own.
    """

    name: str
    k: int
    n: int
    buffer: Buffer
    slices: tuple[tuple[int, int, int], ...]

    @property
    def tiles(self) -> np.ndarray | None:
        """int8 [n * k], the CPU's view of the tiles; None when K was split and they are not one blob."""
        if len(self.slices) > 1:
            return None
        return self.buffer.view[: self.n * self.k].view(np.int8)


@dataclass(frozen=True, slots=True)
class Program:
    """One program before it has a place: what it computes, and its weight for balancing the cores."""

    shape: MatmulShape
    cost: int


@dataclass(frozen=True, slots=True)
class _Block:
    """Columns ``[column, column + width)`` of one weight's result for one K slice, and where they land.

    A row pitch field bounds how wide a row-major result can be, so very wide results come in blocks.
    ``start`` is in int32 elements from the start of the result buffer.
    """

    weight: int
    part: int
    column: int
    width: int
    start: int


def _result_blocks(soc: Soc, weights: Sequence[Int8Weight], rows: int) -> list[_Block]:
    widest = soc.max_row_stride_atoms * soc.atom_bytes // _P.output_bytes
    blocks = []
    start = 0
    for index, weight in enumerate(weights):
        for part in range(len(weight.slices)):
            for column, width in even_parts(weight.n, -(-weight.n // widest), _P.kernel_group):
                blocks.append(_Block(index, part, column, width, start))
                start += rows * width
    return blocks


class Int8Matmul:
    """A compiled ``C_i = A x B_i`` for fixed rows and weights.

    ``a`` is int8 [rows, k], to be filled before ``run``; ``outputs`` are int32 [rows, n_i], valid
    from ``run`` until the next run of any matmul of the same NPU.
    """

    def __init__(self, compiler: Int8Compiler, weights: Sequence[Int8Weight], rows: int) -> None:
        if len({tuple(s[:2] for s in weight.slices) for weight in weights}) != 1:
            raise ValueError("weights of one matmul must share K")
        self._compiler = compiler
        self.rows = rows
        self.k = weights[0].k
        self.weights = tuple(weights)
        self._blocks = _result_blocks(compiler.soc, weights, rows)
        result_bytes = 4 * sum(rows * block.width for block in self._blocks)
        self._a = Slice(compiler.scratch("a", rows * self.k), 0, rows * self.k)
        self._c = Slice(compiler.scratch("c", result_bytes), 0, result_bytes)
        self.a = self._a.view.view(np.int8).reshape(rows, self.k)
        flat = self._c.view.view(np.int32)
        self._views = [flat[b.start : b.start + rows * b.width].reshape(rows, b.width) for b in self._blocks]
        self.outputs = tuple(self._output(index) for index in range(len(weights)))
        self._jobs, self._pieces = compiler.assemble(self._programs())

    @property
    def tasks(self) -> int:
        """Programs one run executes."""
        return sum(job.tasks for job in self._jobs)

    def _output(self, index: int) -> np.ndarray:
        """The result in place where one block holds it, else an array that ``run`` fills."""
        views = [view for view, block in zip(self._views, self._blocks, strict=True) if block.weight == index]
        return views[0] if len(views) == 1 else np.empty((self.rows, self.weights[index].n), dtype=np.int32)

    def _programs(self) -> list[Program]:
        soc = self._compiler.soc
        programs = []
        for block in self._blocks:
            weight = self.weights[block.weight]
            k0, k, offset = weight.slices[block.part]
            for row, height in row_tiles(self.rows, max_rows(soc, _P, k)):
                for column, width in column_segments(soc, _P, block.width, soc.cores):
                    shape = MatmulShape(
                        rows=height,
                        k=k,
                        n=width,
                        a=self._a.iova + row * self.k + k0,
                        b=weight.buffer.iova + offset + (block.column + column) * k,
                        c=self._c.iova + 4 * (block.start + row * block.width + column),
                        a_pitch=self.k,
                        c_pitch=block.width,
                        data_banks=feature_banks(soc, _P, height, k),
                    )
                    programs.append(Program(shape, cost=k * width * (height + 64)))
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
        memory.sync(self._a, uapi.SyncFlag.TO_DEVICE)
        submit()
        memory.sync(self._c, uapi.SyncFlag.FROM_DEVICE)
        for block, view in zip(self._blocks, self._views, strict=True):
            output = self.outputs[block.weight]
            target = output[:, block.column : block.column + block.width]
            if block.part:
                target += view
            elif not np.may_share_memory(output, view):
                target[:] = view
        self._compiler.after_run()

    def close(self) -> None:
        """Give the program memory back; the object must not be run afterwards."""
        self._compiler.release(self._pieces)
        self._jobs, self._pieces = [], []


class Int8Compiler:
    """Loads int8 weights and compiles matmuls on one device; ``after_run`` is called after every run."""

    def __init__(self, soc: Soc, memory: Memory, submitter: Submitter, after_run: Callable[[], None]) -> None:
        self.after_run = after_run
        self.soc = soc
        self.memory = memory
        self.submitter = submitter
        self._programs = Arena(memory, 2 << 20, uapi.DATA_FLAGS)
        self._tasks = Arena(memory, 512 << 10, uapi.TASK_FLAGS, align=_TASK_ALIGN)
        self._scratch: dict[str, Buffer] = {}

    def load(self, name: str, tiles: np.ndarray | memoryview | bytes, k: int, n: int) -> Int8Weight:
        """Copy a tiled weight into NPU memory.

        Args:
            tiles: n * k bytes, int8 tiles over the whole K.
            k, n: padded sizes, multiples of 32.

        Raises:
            ValueError: sizes that do not fit each other.
            NoMemoryError: it does not fit the address window.
        """
        flat = (
            np.frombuffer(tiles, dtype=np.int8)
            if not isinstance(tiles, np.ndarray)
            else tiles.reshape(-1).view(np.int8)
        )
        if k % _P.k_granule or n % _P.kernel_group or k <= 0 or n <= 0:
            raise ValueError(
                f"{name}: K = {k} and N = {n} must be positive multiples of {_P.k_granule} and {_P.kernel_group}"
            )
        if flat.size != n * k:
            raise ValueError(f"{name}: {flat.size} bytes of tiles for K = {k}, N = {n}; expected {n * k}")
        buffer = self.memory.allocate(n * k)
        parts = k_slices(self.soc, _P, k)
        slices = tuple((k0, length, n * k0) for k0, length in parts)
        view = buffer.view[: n * k].view(np.int8)
        if len(parts) == 1:
            view[:] = flat
        else:
            rows = untile_weights(_P, flat, n, k)
            for k0, length, offset in slices:
                view[offset : offset + n * length] = tile_weights(_P, rows[:, k0 : k0 + length])
        self.memory.sync(Slice(buffer, 0, n * k), uapi.SyncFlag.TO_DEVICE)
        return Int8Weight(name, k, n, buffer, slices)

    def compile(self, weights: Sequence[Int8Weight], rows: int) -> Int8Matmul:
        """A matmul of ``rows`` rows against weights that share K.

        Raises:
            ValueError: no weights, no rows, or different K.
            RefusedError: a shape the chip cannot run.
        """
        if not weights or rows < 1:
            raise ValueError(f"{len(weights)} weights and {rows} rows; both must be at least 1")
        return Int8Matmul(self, weights, rows)

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

    def assemble(self, programs: Sequence[Program]) -> tuple[list[Job], list[Slice]]:
        """Lay programs and descriptors into NPU memory as one job per core, balanced by cost."""
        jobs: list[Job] = []
        pieces: list[Slice] = []
        for run in self._runs(programs):
            words = self._programs.take(_PROGRAM_BYTES * len(run))
            tasks = self._tasks.take(_TASK_BYTES * len(run))
            pieces += [words, tasks]
            addresses = [words.iova + _PROGRAM_BYTES * i for i in range(len(run))]
            bodies = [matmul_body(self.soc, _P, "row_major", program.shape) for program in run]
            linked = link(bodies, [Enable.MATMUL] * len(run), addresses)
            words.view[: _PROGRAM_BYTES * len(run)] = np.concatenate(linked).view(np.uint8)
            descriptors = b"".join(
                bytes(
                    uapi.Task(
                        enable_mask=Enable.MATMUL,
                        int_mask=INT_DPU,
                        int_clear=INT_CLEAR_ALL,
                        regcfg_amount=BODY_WORDS,
                        regcmd_addr=address,
                    )
                )
                for address in addresses
            )
            tasks.view[: len(descriptors)] = np.frombuffer(descriptors, dtype=np.uint8)
            self.memory.sync(words, uapi.SyncFlag.TO_DEVICE)
            self.memory.sync(tasks, uapi.SyncFlag.TO_DEVICE)
            jobs.append(Job(tasks, tasks.offset // _TASK_BYTES, len(run)))
        return jobs, pieces

    def _runs(self, programs: Sequence[Program]) -> list[list[Program]]:
        """Programs dealt to as many runs as there are cores, the heaviest first to the lightest run."""
        runs: list[list[Program]] = [[] for _ in range(self.soc.cores)]
        loads = [0] * self.soc.cores
        for program in sorted(programs, key=lambda p: -p.cost):
            lightest = loads.index(min(loads))
            runs[lightest].append(program)
            loads[lightest] += program.cost
        limit = self.soc.max_tasks_per_commit
        return [
            run[start : start + length]
            for run in runs
            if run
            for start, length in even_parts(len(run), -(-len(run) // limit), 1)
        ]

    def release(self, pieces: Sequence[Slice]) -> None:
        for piece in pieces:
            (self._tasks if piece.buffer.flags == uapi.TASK_FLAGS else self._programs).give_back(piece)
