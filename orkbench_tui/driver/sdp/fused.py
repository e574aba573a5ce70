"""Matmuls that finish their result on the way out: requantized per channel, activated, or combined.

One weight, one core. A weight whose K was split cannot be used: what comes out of a slice is not yet a sum.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext

import numpy as np

from orkbench_tui.driver import uapi
from orkbench_tui.driver.failures import LifetimeError, OperandError
from orkbench_tui.driver.layouts import to_cube
from orkbench_tui.driver.matmul.formats import MatmulFormat
from orkbench_tui.driver.matmul.splitting import column_segments, row_tiles
from orkbench_tui.driver.matmul.weights import Weight
from orkbench_tui.driver.memory import Slice
from orkbench_tui.driver.mode_gate import Priming
from orkbench_tui.driver.modes import ChainKind, Mode, Profile
from orkbench_tui.driver.regcmd.programs import (
    FP16_TO_FP16,
    INT8_TO_INT8,
    INT8_TO_INT32,
    MatmulPrecision,
    MatmulShape,
)
from orkbench_tui.driver.regcmd.registers import Precision
from orkbench_tui.driver.run_paths import PathMode
from orkbench_tui.driver.sdp.assembly import RunProgram
from orkbench_tui.driver.sdp.compiled import SdpCompiler
from orkbench_tui.driver.sdp.dead_forms import Form, refuse_form
from orkbench_tui.driver.sdp.fused_programs import (
    OPERAND_OPS,
    PerChannelRequant,
    activated_program,
    biased_program,
    operand_program,
    requantized_program,
)
from orkbench_tui.driver.sdp.lut import Lut, accumulator_lut
from orkbench_tui.driver.sdp.lut_functions import function_named

__all__ = ["FusedMatmul", "activated", "biased", "requantized", "with_operand"]

_LINE = 64
_MIN_OPERAND_ROWS = 12
"""Fewer rows beside an operand from memory were seen to come out wrong."""

_RESULTS = {INT8_TO_INT8: np.int8, INT8_TO_INT32: np.int32, FP16_TO_FP16: np.float16}

ProgramOf = Callable[[MatmulShape, int, int], RunProgram]
"""(shape, first column, byte offset of the tile's part of the extra memory) to a program."""


def _aligned(size: int) -> int:
    return -(-size // _LINE) * _LINE


class FusedMatmul:
    """A compiled fused matmul. ``run`` takes A [rows, k] and, where there is one, the operand [rows, n]."""

    def __init__(
        self,
        compiler: SdpCompiler,
        weight: Weight,
        rows: int,
        precision: MatmulPrecision,
        program: ProgramOf,
        *,
        parameters: np.ndarray | None = None,
        takes_operand: bool = False,
        lut: Lut | None = None,
    ) -> None:
        _require_whole(weight, rows)
        context = compiler.context
        context.require_ready("compiling a fused matmul", (weight.buffer,))
        self._compiler, self._context = compiler, context
        self.weight, self.rows, self.n = weight, rows, weight.n
        self._precision, self._lut, self._takes_operand = precision, lut, takes_operand
        self._device_rows = max(rows, _MIN_OPERAND_ROWS) if takes_operand else rows
        self._result = np.dtype(_RESULTS[precision])
        self._tiles = self._row_tiles(weight.format)
        a_size = _aligned(self._device_rows * weight.k * np.dtype(weight.format.memory).itemsize)
        extra = parameters.size if parameters is not None else 0
        if takes_operand:
            extra = self._device_rows * self.n * self._result.itemsize
        self._extra_start, self._c_start = a_size, a_size + _aligned(extra)
        size = self._c_start + self._device_rows * self.n * self._result.itemsize
        self._buffer = context.memory.allocate(size)
        self._c = Slice(self._buffer, self._c_start, self._buffer.size - self._c_start)
        self._priming = Priming()
        if parameters is not None:
            self._store(self._extra_start, parameters)
        programs = self._programs(program)
        runs = [[p] for p in programs] if lut else [programs]
        self._assembly = compiler.runs.assemble(runs, pingpong=lut is None)

    def _row_tiles(self, format: MatmulFormat) -> list[tuple[int, int]]:
        return row_tiles(self._device_rows, format.rows_cap(self._context.soc, self.weight.k, self.n))

    def _columns(self) -> list[tuple[int, int]]:
        return column_segments(self._context.soc, self._precision, self.n, 1)

    def _operand_offset(self, row: int, height: int, column: int) -> int:
        """Cubes lie one behind the other, tile by tile and column segment by column segment."""
        return (row * self.n + height * column) * self._result.itemsize

    def _programs(self, program: ProgramOf) -> list[RunProgram]:
        soc, weight, iova = self._context.soc, self.weight, self._buffer.iova
        item = np.dtype(weight.format.memory).itemsize
        found = []
        for row, height in self._tiles:
            for column, width in self._columns():
                shape = MatmulShape(
                    rows=height,
                    k=weight.k,
                    n=width,
                    a=iova + row * weight.k * item,
                    b=weight.buffer.iova + weight.format.memory_bytes(column * weight.k),
                    c=iova + self._c_start + (row * self.n + column) * self._result.itemsize,
                    a_pitch=weight.k,
                    c_pitch=self.n,
                    data_banks=weight.format.banks(soc, height, weight.k),
                )
                operand = self._operand_offset(row, height, column) if self._takes_operand else 0
                found.append(program(shape, column, iova + self._extra_start + operand))
        return found

    @property
    def tasks(self) -> int:
        """Programs one run executes, a table load not counted."""
        return sum(job.tasks for job in self._assembly.jobs)

    def _store(self, offset: int, values: np.ndarray) -> None:
        data = np.ascontiguousarray(values).view(np.uint8).reshape(-1)
        self._buffer.view[offset : offset + data.size] = data

    def _store_operand(self, operand: np.ndarray) -> None:
        padded = np.zeros((self._device_rows, self.n), dtype=operand.dtype)
        padded[: self.rows] = operand
        for row, height in self._tiles:
            for column, width in self._columns():
                part = padded[row : row + height, column : column + width]
                offset = self._extra_start + self._operand_offset(row, height, column)
                self._store(offset, to_cube(part, 16 // self._result.itemsize))

    def _require(self, name: str, array: np.ndarray, shape: tuple[int, int], dtype: object) -> None:
        if array.shape != shape or array.dtype != dtype:
            raise OperandError(
                f"{name} is {array.dtype} of shape {array.shape}", why=f"expected {dtype} {shape}"
            )
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise OperandError(name, why="numbers must be finite")

    def run(self, a: np.ndarray, operand: np.ndarray | None = None, *, core: int = 0) -> np.ndarray:
        """The finished result [rows, n], a new array.

        Raises:
            OperandError: arrays of another type or shape.
            LifetimeError: closed, or the weight was freed.
            UnhealthyError, NoDeviceError: see ``Submitter.run_on``.
        """
        if not self._tiles:
            raise LifetimeError("running a fused matmul", why="it was closed", do="compile it again")
        self._context.require_ready("running a fused matmul", (self._buffer, self.weight.buffer))
        self._require("A", a, (self.rows, self.weight.k), np.dtype(self.weight.format.operand))
        if (operand is not None) != self._takes_operand:
            raise OperandError("a fused matmul", why=f"takes {'an' if self._takes_operand else 'no'} operand")
        self._store(0, a)
        if operand is not None:
            self._require("the operand", operand, (self.rows, self.n), self._result)
            self._store_operand(operand)
        memory = self._context.memory
        memory.sync(Slice(self._buffer, 0, self._c_start), uapi.SyncFlag.TO_DEVICE)
        self._submit(core)
        memory.sync(self._c, uapi.SyncFlag.FROM_DEVICE)
        self._context.after_run()
        size = self.rows * self.n * self._result.itemsize
        result = self._buffer.view[self._c_start : self._c_start + size].view(self._result)
        return result.reshape(self.rows, self.n).copy()

    def _submit(self, core: int) -> None:
        mode = Mode.F16 if self._precision.code is Precision.FP16 else Mode.I8
        path = PathMode(mode, Profile.SC_MM, ChainKind.FUSED)
        cold = self._context.gate.enter(path)
        failed = True
        try:
            tables = self._compiler.tables.ready(core, self._lut) if self._lut else nullcontext()
            with self._context.domains.use(0), tables:
                if self._priming.due(self._context.gate, cold=cold):
                    self._context.memory.sync(self._c, uapi.SyncFlag.TO_DEVICE)
                for job in self._assembly.jobs:
                    self._context.submitter.run_on(core, job)
            failed = False
        finally:
            self._context.gate.leave(path, failed=failed)

    def close(self) -> None:
        """Give the memory back; the object must not be run afterwards."""
        if self._tiles:
            self._tiles = []
            self._compiler.runs.release(self._assembly)
            self._context.memory.free(self._buffer)

    def __enter__(self) -> FusedMatmul:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _require_whole(weight: Weight, rows: int) -> None:
    if rows < 1:
        raise OperandError("a fused matmul", why=f"{rows} rows; at least 1")
    if weight.domain or len(weight.buffers) > 1:
        raise OperandError(
            f"a fused matmul with {weight.name}",
            why=f"it lies in domain {weight.domain}, in {len(weight.buffers)} buffers",
            do="load it into one buffer of domain 0",
        )
    if len(weight.slices) != 1:
        raise OperandError(
            f"a fused matmul with {weight.name}",
            why=f"K = {weight.k} is split, and the output stage sees one slice's part of the sum",
            do=f"use K up to {weight.format.k_limit}",
        )


def _is_int8(weight: Weight) -> bool:
    return weight.format.precision.code is Precision.INT8


def _require_int8(weight: Weight, what: str) -> None:
    if not _is_int8(weight):
        raise OperandError(f"{what} with {weight.name}", why=f"it is {weight.format.name}; expected int8")


def requantized(compiler: SdpCompiler, weight: Weight, rows: int, requant: PerChannelRequant) -> FusedMatmul:
    """int8 matmul to int8 with bias and factor per channel, see ``PerChannelRequant``.

    Raises:
        OperandError: not an int8 weight, a split K, or parameters of another width.
    """
    _require_int8(weight, "requantization per channel")
    if len(requant.bias) != weight.n:
        raise OperandError(
            "requantization per channel", why=f"{len(requant.bias)} channels for {weight.n} columns"
        )

    def program(shape: MatmulShape, column: int, block: int) -> RunProgram:
        return requantized_program(compiler.context.soc, shape, requant, block + requant.block_offset(column))

    return FusedMatmul(compiler, weight, rows, INT8_TO_INT8, program, parameters=requant.block())


def biased(compiler: SdpCompiler, weight: Weight, rows: int, bias: np.ndarray) -> FusedMatmul:
    """int8 matmul to int32 plus ``bias`` int32 [n].

    Raises:
        OperandError: not an int8 weight, a split K, or a bias of another type or width.
    """
    _require_int8(weight, "a bias per channel")
    if bias.shape != (weight.n,) or bias.dtype != np.int32:
        raise OperandError(
            "a bias per channel", why=f"{bias.dtype} of shape {bias.shape}; expected int32 ({weight.n},)"
        )

    def program(shape: MatmulShape, column: int, block: int) -> RunProgram:
        return biased_program(compiler.context.soc, shape, block + 4 * column)

    return FusedMatmul(compiler, weight, rows, INT8_TO_INT32, program, parameters=bias.view(np.uint8))


def activated(
    compiler: SdpCompiler,
    weight: Weight,
    rows: int,
    function: str,
    *,
    acc_scale: float,
    out_scale: float,
    reach: float,
    out_zero: int = 0,
    out: str = "int8",
) -> FusedMatmul:
    """int8 matmul to int8 codes of ``f(acc * acc_scale)``.

    Args:
        reach: largest magnitude of ``acc * acc_scale`` the table resolves; tails beyond it.

    Raises:
        RefusedError: an fp16 weight or fp16 results, which never worked on a board.
        OperandError: scales out of reach or a function that cannot stand here.
    """
    if not _is_int8(weight):
        refuse_form(Form.FUSED_FP16_TABLE, seen=f"{function} behind {weight.name} of {weight.format.name}")
    if out != "int8":
        refuse_form(Form.FUSED_FP16_OUTPUT, seen=f"{function} behind {weight.name} with {out} results")
    use = accumulator_lut(
        function_named(function), acc_scale=acc_scale, reach=reach, out_scale=out_scale, out_zero=out_zero
    )

    def program(shape: MatmulShape, column: int, block: int) -> RunProgram:
        return activated_program(compiler.context.soc, shape, use)

    return FusedMatmul(compiler, weight, rows, INT8_TO_INT8, program, lut=use.lut)


def with_operand(compiler: SdpCompiler, weight: Weight, rows: int, op: str) -> FusedMatmul:
    """fp16 matmul to fp16, combined with an fp16 operand [rows, n] by one of ``OPERAND_OPS``.

    Raises:
        RefusedError: an int8 weight with mul, which never worked on a board.
        OperandError: another operation, or not an fp16 weight.
    """
    if op not in OPERAND_OPS:
        raise OperandError(f"{op} behind a matmul", why=f"there are {', '.join(OPERAND_OPS)}")
    if op == "mul" and _is_int8(weight):
        refuse_form(Form.FUSED_MULTIPLY, seen=f"mul behind {weight.name} of {weight.format.name}")
    if weight.format.precision.code is not Precision.FP16:
        raise OperandError(
            f"{op} behind {weight.name}", why=f"it is {weight.format.name}; a fused operand is for fp16"
        )

    def program(shape: MatmulShape, column: int, operand: int) -> RunProgram:
        return operand_program(compiler.context.soc, shape, op, operand)

    return FusedMatmul(compiler, weight, rows, FP16_TO_FP16, program, takes_operand=True)
