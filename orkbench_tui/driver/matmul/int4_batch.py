"""int4 matmuls in the batch form: rows twice their size apart, results in every fourth line.

Another way to what the fold form computes, the one whose row limits were measured on boards. The caller
sees neither: rows go in and int32 sums come out.
"""

from __future__ import annotations

import numpy as np

from orkbench_tui.driver import uapi
from orkbench_tui.driver.context import Context
from orkbench_tui.driver.failures import LifetimeError, OperandError
from orkbench_tui.driver.layouts import pack_nibbles
from orkbench_tui.driver.matmul.assembly import Program
from orkbench_tui.driver.matmul.formats import INT4
from orkbench_tui.driver.matmul.operands import require_array, require_values
from orkbench_tui.driver.matmul.splitting import row_tiles
from orkbench_tui.driver.matmul.weights import Weight
from orkbench_tui.driver.memory import Slice
from orkbench_tui.driver.regcmd.int4_batch import batch_columns, batch_rows
from orkbench_tui.driver.regcmd.programs import MatmulShape, data_banks, matmul_body
from orkbench_tui.driver.run_paths import RunPath, path_mode

__all__ = ["Int4BatchMatmul", "gather_rows", "pack_rows"]

_LINES = 4
_GROUP = INT4.precision.kernel_group
_SLOT_BYTES = 2 * _GROUP


def pack_rows(codes: np.ndarray) -> np.ndarray:
    """int4 codes [rows, k] as bytes [rows, k]: the nibbles of a row, then as many bytes nobody reads."""
    rows, k = codes.shape
    packed = np.zeros((rows, k), np.uint8)
    packed[:, : k // 2] = pack_nibbles(codes.reshape(-1)).reshape(rows, k // 2)
    return packed


def gather_rows(slots: np.ndarray, rows: int, n: int) -> np.ndarray:
    """Results [rows, n] out of int16 slots of 64: row j of group b is line ``4 j + 4 rows b``."""
    lines = slots.reshape(n // _GROUP, rows, _LINES, _GROUP)[:, :, 0]
    return lines.transpose(1, 0, 2).reshape(rows, n)


class Int4BatchMatmul:
    """``rows`` rows against an int4 weight, on one core; ``run`` gives int32 [rows, n].

    Raises:
        OperandError: another format, no rows, or a weight outside domain 0 or in imported chunks.
        RefusedError: a K too large for two rows (GRD-20).
        LifetimeError: the weight was freed.
    """

    def __init__(self, context: Context, weight: Weight, rows: int, *, core: int = 0) -> None:
        if weight.format is not INT4 or rows < 1 or weight.domain or weight.pieces:
            raise OperandError(
                "int4 batch",
                why=f"{rows} rows, {weight.name} is {weight.format.name} in domain {weight.domain}; allowed: rows "
                "from 1 on, int4 in native memory of domain 0",
            )
        context.require_ready("compiling a matmul", weight.buffers)
        self._context, self._core = context, core
        self.weight, self.rows = weight, rows
        self._a_starts, self._blocks = [], []
        a_bytes = c_bytes = 0
        for part, piece in enumerate(weight.slices):
            self._a_starts.append(a_bytes)
            a_bytes += rows * piece.length
            for row, height in row_tiles(rows, batch_rows(piece.length)):
                for column, width in self._column_tiles(piece.length):
                    self._blocks.append((part, row, height, column, width, c_bytes))
                    c_bytes += _LINES * height * width // _GROUP * _SLOT_BYTES
        with context.domains.use(0):
            # The last rows' lines beside them are read too.
            self._a = Slice(
                context.memory.allocate(a_bytes + _LINES * max(s.length for s in weight.slices)), 0, a_bytes
            )
            self._c = Slice(context.memory.allocate(c_bytes), 0, c_bytes)
            self._jobs, self._pieces = context.programs.assemble(self._programs(), 1)
        self._open = True

    def _column_tiles(self, k: int) -> list[tuple[int, int]]:
        widest = batch_columns(k)
        return [(at, min(widest, self.weight.n - at)) for at in range(0, self.weight.n, widest)]

    def _programs(self) -> list[Program]:
        soc, precision = self._context.soc, INT4.precision
        programs = []
        for part, row, height, column, width, start in self._blocks:
            k = self.weight.slices[part].length
            [(_, _, tiles)] = self.weight.spans(part, column, width)
            shape = MatmulShape(
                rows=height,
                k=k,
                n=width,
                a=self._a.iova + self._a_starts[part] + row * k,
                b=tiles.iova,
                c=self._c.iova + start,
                data_banks=data_banks(soc, precision, _LINES * height, k),
            )
            body = matmul_body(soc, precision, "int4_batch", shape)
            programs.append(Program(body, k * width * (_LINES * height + 64)))
        return programs

    @property
    def tasks(self) -> int:
        """Programs one run executes."""
        return sum(job.tasks for job in self._jobs)

    def run(self, a: np.ndarray) -> np.ndarray:
        """int4 codes [rows, k] (int8 values -8 to 7) to int32 [rows, n], a new array.

        Raises:
            OperandError: another type, shape or range.
            LifetimeError: it was closed, or the weight was freed.
            UnhealthyError: the job timed out.
        """
        context, memory = self._context, self._context.memory
        if not self._open:
            raise LifetimeError("running a matmul", why="it was closed", do="compile it again")
        context.require_ready("running a matmul", (self._a.buffer, self._c.buffer, *self.weight.buffers))
        require_array(a, (self.rows, self.weight.k), INT4.operand, "activation")
        require_values(INT4, a, "activation")
        for piece, start in zip(self.weight.slices, self._a_starts, strict=True):
            packed = pack_rows(np.ascontiguousarray(a[:, piece.first : piece.first + piece.length]))
            self._a.view[start : start + packed.size] = packed.reshape(-1)
        with context.gate.inside(path_mode(RunPath.BLOCKING, INT4)), context.domains.use(0):
            memory.sync(self._a.buffer, uapi.SyncFlag.TO_DEVICE)
            memory.sync(self._c, uapi.SyncFlag.TO_DEVICE)
            for job in self._jobs:
                context.submitter.run_on(self._core, job)
            memory.sync(self._c, uapi.SyncFlag.FROM_DEVICE)
        context.after_run()
        total = np.zeros((self.rows, self.weight.n), np.int32)
        for _, row, height, column, width, start in self._blocks:
            size = _LINES * height * width // _GROUP * _SLOT_BYTES
            slots = self._c.view[start : start + size].view(np.int16)
            total[row : row + height, column : column + width] += gather_rows(slots, height, width)
        return total

    def close(self) -> None:
        """Give the memory back; the weight stays."""
        if self._open:
            self._open = False
            self._context.programs.release(self._pieces)
            self._context.memory.free(self._a.buffer)
            self._context.memory.free(self._c.buffer)
