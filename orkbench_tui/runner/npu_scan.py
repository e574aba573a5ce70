"""The scan of a prompt with its wide products on the NPU in fp16: the operands of one lane, for layers of one shape."""

from __future__ import annotations

from orkbench_tui.native.scan_halves import ScanHalves, parts_of_run
from orkbench_tui.native.scan_steps import ScanShape, chunks_touched
from orkbench_tui.runner.linear import HalfProductsLike, NpuLike
from orkbench_tui.runner.overlap.micro_batches import ROWS_PER_CHUNK

__all__ = ["NpuScan"]


class NpuScan:
    """Two runs of the NPU a layer: what full chunks add to the states, then what states give to the rows.

    ``halves`` has the processor's steps before, between and after. Layers of a lane take turns.

    Raises:
        ValueError: heads or states that are no whole tiles.
        NoMemoryError: there is no room for the operands in the NPU's memory.
    """

    def __init__(self, npu: NpuLike, shape: ScanShape) -> None:
        count = chunks_touched(ROWS_PER_CHUNK, shape.chunk) * shape.groups
        width = shape.group_width
        self._shape = shape
        self._adds: HalfProductsLike = npu.fresh_products(
            count, shape.state_size, shape.chunk, width, "scan: added to states"
        )
        self._reads: HalfProductsLike = npu.fresh_products(
            count, shape.chunk, shape.state_size, width, "scan: read from states"
        )
        self.halves = ScanHalves(shape, self._reads.products, self._adds.products, ROWS_PER_CHUNK)

    def add(self, rows: int, position: int) -> None:
        """The part of a program between ``halves.begin`` and ``halves.carry``."""
        self._adds.run(parts_of_run(rows, position, self._shape.chunk)[1] * self._shape.groups)

    def read(self, rows: int, position: int) -> None:
        """The part between ``halves.carry`` and ``halves.finish``."""
        self._reads.run(parts_of_run(rows, position, self._shape.chunk)[0] * self._shape.groups)
