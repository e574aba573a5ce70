"""RMSNorm on fp16: ``x / sqrt(mean(x**2) + eps) * w``, split between host and NPU.

| part | runs on | why |
|---|---|---|
| mean of squares per row | host, float32 | no unit reduces a row; squares of fp16 overflow fp16 |
| ``1 / sqrt(mean + eps)`` per row | host, float32, rounded to fp16 | one number per row, a table is coarser |
| factor spread over the row | host, fp16 | the pipeline has operands per channel, none per row |
| ``x * factor`` | NPU | program 1 |
| ``(x * factor) * w`` | NPU | program 2, linked behind 1, reads its result in place |

Both programs are one submit. The result is rounded to fp16 three times: factor, first and second product.
"""

from __future__ import annotations

import numpy as np

from orkbench_tui.driver import uapi
from orkbench_tui.driver.failures import LifetimeError, OperandError
from orkbench_tui.driver.layouts import from_cube, to_cube
from orkbench_tui.driver.memory import Slice
from orkbench_tui.driver.sdp.assembly import RunProgram
from orkbench_tui.driver.sdp.compiled import SdpCompiler, checked_matrix
from orkbench_tui.driver.sdp.formats import FORMATS, tiles
from orkbench_tui.driver.sdp.programs import SDP_WORDS, SdpShape, sdp_body
from orkbench_tui.driver.sdp.table import row_for

__all__ = ["RmsNorm", "row_factors"]

_FP16 = FORMATS["fp16"]
_LINE = 64


def row_factors(x: np.ndarray, eps: float) -> np.ndarray:
    """``1 / sqrt(mean(x**2) + eps)`` of each row [rows, 1], fp16; the host's part.

    Raises:
        OperandError: numbers that are not finite, or a factor fp16 cannot hold.
    """
    wide = x.astype(np.float32)
    mean = np.asarray(np.mean(wide * wide, axis=1, keepdims=True, dtype=np.float32))
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        factors = (1.0 / np.sqrt(mean + np.float32(eps))).astype(np.float16)
    if not np.isfinite(factors).all():
        row = int(np.argmin(np.isfinite(factors[:, 0])))
        raise OperandError(f"row {row}: mean of squares {mean[row, 0]}", why="its factor does not fit fp16")
    return factors


class RmsNorm:
    """RMSNorm of [rows, channels] with weight fp16 [channels]; the weight stays in NPU memory.

    Raises:
        OperandError: a weight of another type or shape, or channels that do not fill atoms.
    """

    def __init__(self, compiler: SdpCompiler, weight: np.ndarray, rows: int, eps: float = 1e-6) -> None:
        checked_matrix("the weight", _FP16, weight[None] if weight.ndim == 1 else weight)
        if weight.ndim != 1 or rows < 1 or not eps >= 0:
            raise OperandError(
                f"weight {weight.shape}, {rows} rows, eps {eps}", why="expected [channels], 1 row, 0"
            )
        self.rows, self.channels, self.eps = rows, len(weight), eps
        self._compiler = compiler
        self._tiles = tiles(_FP16, rows, self.channels)
        self._offsets = []
        at = 0
        for tile in self._tiles:
            self._offsets.append(at)
            at += -(-tile.elements * 2 // _LINE) * _LINE
        self._part = at
        # x, factors, weight, result: one part each.
        self._buffer = compiler.context.memory.allocate(4 * self._part)
        self._store(2, np.broadcast_to(weight, (rows, self.channels)))
        self._assembly = compiler.runs.assemble([self._programs()])

    def _programs(self) -> list[RunProgram]:
        row = row_for("mul", "fp16")
        programs = []
        for tile, offset in zip(self._tiles, self._offsets, strict=True):
            x, factors, weight, result = (self._buffer.iova + offset + part * self._part for part in range(4))
            for a, b in ((x, factors), (result, weight)):
                shape = SdpShape(tile.rows, tile.channels, a=a, b=b, c=result)
                programs.append(RunProgram(sdp_body(row, shape), SDP_WORDS))
        return programs

    def _store(self, part: int, matrix: np.ndarray) -> None:
        for tile, offset in zip(self._tiles, self._offsets, strict=True):
            data = to_cube(np.ascontiguousarray(matrix[tile.window]), _FP16.per_atom).view(np.uint8)
            start = part * self._part + offset
            self._buffer.view[start : start + data.size] = data

    def run(self, x: np.ndarray, *, core: int = 0) -> np.ndarray:
        """The normalized rows, fp16 [rows, channels].

        Raises:
            OperandError: another type or shape, or numbers that are not finite.
            UnhealthyError, NoDeviceError: see ``Submitter.run_on``.
        """
        if not self._tiles:
            raise LifetimeError("running an RMSNorm", why="it was closed", do="compile it again")
        checked_matrix("x", _FP16, x, (self.rows, self.channels))
        context = self._compiler.context
        context.require_ready("running an RMSNorm", (self._buffer,))
        factors = row_factors(x, self.eps)
        self._store(0, x)
        self._store(1, np.broadcast_to(factors, x.shape))
        context.memory.sync(Slice(self._buffer, 0, 3 * self._part), uapi.SyncFlag.TO_DEVICE)
        self._compiler.run(_FP16, self._assembly.jobs, core, None)
        context.memory.sync(Slice(self._buffer, 3 * self._part, self._part), uapi.SyncFlag.FROM_DEVICE)
        context.after_run()
        return self._gather()

    def _gather(self) -> np.ndarray:
        result = np.empty((self.rows, self.channels), dtype=np.float16)
        for tile, offset in zip(self._tiles, self._offsets, strict=True):
            start = 3 * self._part + offset
            cube = self._buffer.view[start : start + 2 * tile.elements].view(np.float16)
            result[tile.window] = from_cube(cube, tile.rows, tile.channels, _FP16.per_atom)
        return result

    def close(self) -> None:
        """Give the memory back; the object must not be run afterwards."""
        if self._tiles:
            self._tiles = ()
            self._compiler.runs.release(self._assembly)
            self._compiler.context.memory.free(self._buffer)

    def __enter__(self) -> RmsNorm:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
