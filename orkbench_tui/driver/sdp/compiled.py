"""Element-wise operations compiled for a shape: cubes in NPU memory, programs over them, runs.

Every tile of an operation has cubes of its own. Programs whose BS and BN are bypassed are linked into
one submit; the others get a submit each, since they stall in a chain.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass

import numpy as np

from orkbench_tui.driver import uapi
from orkbench_tui.driver.chip_programs import require_known_programs
from orkbench_tui.driver.context import Context
from orkbench_tui.driver.failures import OperandError
from orkbench_tui.driver.layouts import from_cube, to_cube
from orkbench_tui.driver.memory import Buffer, Slice
from orkbench_tui.driver.modes import Mode, Profile
from orkbench_tui.driver.run_paths import PathMode
from orkbench_tui.driver.sdp.assembly import RunProgram, Runs
from orkbench_tui.driver.sdp.formats import FORMATS, SdpFormat, Tile, tiles
from orkbench_tui.driver.sdp.lut import Lut, LutUse
from orkbench_tui.driver.sdp.lut_programs import lut_apply_body
from orkbench_tui.driver.sdp.programs import SDP_WORDS, SdpNumbers, SdpShape, sdp_body
from orkbench_tui.driver.sdp.residency import LutResidency
from orkbench_tui.driver.sdp.table import Operand, OpRow
from orkbench_tui.driver.submit import Job

__all__ = ["SdpCompiler", "SdpOperation", "checked_matrix"]

_LINE = 64


@dataclass(frozen=True, slots=True)
class _Placed:
    """A tile and the byte offsets of its cubes."""

    tile: Tile
    a: int
    b: int
    c: int


def checked_matrix(
    name: str, format: SdpFormat, matrix: np.ndarray, shape: tuple[int, ...] | None = None
) -> np.ndarray:
    """``matrix`` when it is [rows, channels] of the type, channels filling whole atoms.

    Raises:
        OperandError: another type or shape.
    """
    if matrix.dtype != format.dtype:
        raise OperandError(f"{name} is {matrix.dtype}", why=f"this operation takes {format.dtype}")
    if shape is not None and matrix.shape != shape:
        raise OperandError(f"{name} has shape {matrix.shape}", why=f"expected {shape}")
    if matrix.ndim != 2 or not matrix.shape[0] or not matrix.shape[1] or matrix.shape[1] % format.per_atom:
        raise OperandError(
            f"{name} has shape {matrix.shape}",
            why=f"rows of {format.name} have a positive multiple of {format.per_atom} channels",
            do="pad the channels",
        )
    if format.floating and not np.isfinite(matrix).all():
        row, channel = np.argwhere(~np.isfinite(matrix))[0]
        raise OperandError(
            f"{name} holds {matrix[row, channel]} at [{row}, {channel}]", why="operands must be finite"
        )
    return matrix


def _aligned(size: int) -> int:
    return -(-size // _LINE) * _LINE


class SdpCompiler:
    """Compiles and runs element-wise programs on one device."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.runs = Runs(context.memory)
        self.tables = LutResidency(context.memory, context.submitter, self.runs, context.gate.state)

    def operation(
        self, row: OpRow, rows: int, channels: int, numbers: SdpNumbers | None = None
    ) -> SdpOperation:
        """An operation of the table on ``rows`` x ``channels``.

        Raises:
            OperandError: channels that do not fill atoms.
        """

        require_known_programs(self.context.soc)

        def body(shape: SdpShape) -> np.ndarray:
            return sdp_body(row, shape, numbers)

        out = FORMATS[row.out or row.dtype]
        return SdpOperation(
            self, FORMATS[row.dtype], out, row.operand, rows, channels, body, linkable=row.linkable
        )

    def table_operation(self, format: SdpFormat, rows: int, channels: int, use: LutUse) -> SdpOperation:
        """A function table on ``rows`` x ``channels``; the table is loaded where it is not."""

        require_known_programs(self.context.soc)

        def body(shape: SdpShape) -> np.ndarray:
            return lut_apply_body(format, shape, use)

        return SdpOperation(
            self, format, format, Operand.NONE, rows, channels, body, linkable=False, lut=use.lut
        )

    def run(self, format: SdpFormat, jobs: Sequence[Job], core: int, lut: Lut | None) -> None:
        """Run jobs one after the other on a core, in the mode of their type, with their table loaded.

        Raises:
            UnhealthyError, NoDeviceError: see ``Submitter.run_on``.
        """
        path = PathMode(Mode.F16 if format.floating else Mode.I8, Profile.SDP)
        self.context.gate.enter(path)
        failed = True
        try:
            with self.context.domains.use(0), self.tables.ready(core, lut) if lut else nullcontext():
                for job in jobs:
                    self.context.submitter.run_on(core, job)
            failed = False
        finally:
            self.context.gate.leave(path, failed=failed)


class SdpOperation:
    """A compiled operation. ``run`` computes ``output`` from the operands given to it."""

    def __init__(
        self,
        compiler: SdpCompiler,
        format: SdpFormat,
        out: SdpFormat,
        operand: Operand,
        rows: int,
        channels: int,
        body: Callable[[SdpShape], np.ndarray],
        *,
        linkable: bool,
        lut: Lut | None = None,
    ) -> None:
        if rows < 1 or channels < 1 or channels % format.per_atom:
            raise OperandError(
                f"{rows} x {channels} elements of {format.name}",
                why=f"at least one row, channels a positive multiple of {format.per_atom}",
            )
        self.format, self.out, self.operand = format, out, operand
        self.rows, self.channels = rows, channels
        self._compiler = compiler
        self._lut = lut
        self._placed, self._c_start, size = self._place(tiles(format, rows, channels, table=lut is not None))
        self._buffer: Buffer = compiler.context.memory.allocate(size)
        programs = [
            RunProgram(
                body(
                    SdpShape(
                        placed.tile.rows,
                        placed.tile.channels,
                        a=self._buffer.iova + placed.a,
                        b=self._buffer.iova + placed.b if operand is not Operand.NONE else 0,
                        c=self._buffer.iova + placed.c,
                    )
                ),
                SDP_WORDS,
            )
            for placed in self._placed
        ]
        runs = [programs] if linkable else [[program] for program in programs]
        self._assembly = compiler.runs.assemble(runs, pingpong=lut is None)

    def _operand_bytes(self, tile: Tile) -> int:
        return {
            Operand.NONE: 0,
            Operand.ELEMENT: tile.elements * self.format.dtype.itemsize,
            Operand.CHANNEL: tile.channels * self.format.factor_dtype.itemsize,
        }[self.operand]

    def _place(self, parts: tuple[Tile, ...]) -> tuple[list[_Placed], int, int]:
        """Operands first, results behind: the two are synced in opposite directions."""
        at, inputs = 0, []
        for tile in parts:
            a, b = at, at + _aligned(tile.elements * self.format.dtype.itemsize)
            at = b + _aligned(self._operand_bytes(tile))
            inputs.append((tile, a, b))
        c_start, placed = at, []
        for tile, a, b in inputs:
            placed.append(_Placed(tile, a, b, at))
            at += _aligned(tile.elements * self.out.dtype.itemsize)
        return placed, c_start, at

    @property
    def submits(self) -> int:
        """Submits of one run, a table load not counted."""
        return len(self._assembly.jobs)

    def _view(self, offset: int, size: int) -> np.ndarray:
        return self._buffer.view[offset : offset + size]

    def _store(self, offset: int, values: np.ndarray) -> None:
        data = np.ascontiguousarray(values).view(np.uint8).reshape(-1)
        self._view(offset, data.size)[:] = data

    def _store_operands(self, a: np.ndarray, b: np.ndarray | None) -> None:
        per_atom = self.format.per_atom
        for placed in self._placed:
            window = placed.tile.window
            self._store(placed.a, to_cube(a[window], per_atom))
            if b is not None:
                self._store(placed.b, to_cube(b[window], per_atom) if b.ndim == 2 else b[window[1]])

    def _check(self, a: np.ndarray, b: np.ndarray | None) -> None:
        shape = (self.rows, self.channels)
        checked_matrix("the first operand", self.format, a, shape)
        if (b is None) != (self.operand is Operand.NONE):
            raise OperandError("wrong number of operands", why=f"the second operand is {self.operand}")
        if b is None:
            return
        if self.operand is Operand.ELEMENT:
            checked_matrix("the second operand", self.format, b, shape)
        elif b.shape != shape[1:] or b.dtype != self.format.factor_dtype:
            raise OperandError(
                f"the second operand is {b.dtype} of shape {b.shape}",
                why=f"expected {self.format.factor_dtype} of shape {shape[1:]}",
            )
        elif self.format.floating and not np.isfinite(b).all():
            raise OperandError("the second operand", why="operands must be finite")

    def run(self, a: np.ndarray, b: np.ndarray | None = None, *, core: int = 0) -> np.ndarray:
        """Compute on one core.

        Args:
            a: [rows, channels] of the operation's type.
            b: the same, or [channels] of ``format.factor_dtype`` for operands per channel; None where
                there is none.

        Returns:
            [rows, channels] of the result type, a new array.

        Raises:
            OperandError: operands of another type or shape.
            UnhealthyError, NoDeviceError: see ``Submitter.run_on``.
            LifetimeError: the operation was closed.
        """
        self._check(a, b)
        context = self._compiler.context
        context.require_ready("an element-wise operation", (self._buffer,))
        self._store_operands(a, b)
        memory = context.memory
        memory.sync(Slice(self._buffer, 0, self._c_start), uapi.SyncFlag.TO_DEVICE)
        self._compiler.run(self.format, self._assembly.jobs, core, self._lut)
        memory.sync(
            Slice(self._buffer, self._c_start, self._buffer.size - self._c_start), uapi.SyncFlag.FROM_DEVICE
        )
        result = self._gather()
        context.after_run()
        return result

    def _gather(self) -> np.ndarray:
        result = np.empty((self.rows, self.channels), dtype=self.out.dtype)
        for placed in self._placed:
            tile = placed.tile
            cube = self._view(placed.c, tile.elements * self.out.dtype.itemsize).view(self.out.dtype)
            result[tile.window] = from_cube(cube, tile.rows, tile.channels, self.out.per_atom)
        return result

    def close(self) -> None:
        """Give the memory back; the object must not be run afterwards."""
        if self._placed:
            self._placed = []
            self._compiler.runs.release(self._assembly)
            self._compiler.context.memory.free(self._buffer)

    def __enter__(self) -> SdpOperation:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
