"""A scan whose two wide products something else computes from halves: the steps before, between and after them.

Everything is scaled by powers of two into the range of halves and back, rows of C one by one, the rest by chunk
and head, so that no result depends on where rows were cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from orkbench_tui.native.library import address, ffi, require
from orkbench_tui.native.scan_steps import ScanRows, ScanShape, chunks_touched
from orkbench_tui.native.steps import Steps

__all__ = ["HALF_DEPTH", "HALF_WIDTH", "HalfProduct", "ScanHalves", "parts_of_run", "takes_halves"]

HALF_WIDTH, HALF_DEPTH = 16, 32
"""Columns and depth of a weight tile of halves: what heads and states come in multiples of."""


class HalfProduct(Protocol):
    """``a`` float16 [rows, k] times weight tiles float16 [n / 16, k / 32, 16, 32], flat: ``output`` float32 [rows, n]."""

    @property
    def a(self) -> NDArray[np.float16]: ...

    @property
    def tiles(self) -> NDArray[np.float16]: ...

    @property
    def output(self) -> NDArray[np.float32]: ...


def parts_of_run(rows: int, position: int, chunk: int) -> tuple[int, int]:
    """Chunks that ``rows`` from ``position`` on lie in, and how many of these they fill to the end."""
    at = position % chunk
    return (at + rows - 1) // chunk + 1, (at + rows) // chunk


def takes_halves(shape: ScanShape) -> bool:
    """Whether heads, states and chunks are whole tiles of halves."""
    return not (shape.head_dim % HALF_WIDTH or shape.state_size % HALF_DEPTH or shape.chunk % HALF_DEPTH)


class ScanHalves:
    """Operands, results and scales of the products for layers of one shape, for runs of up to ``rows``.

    ``reads[chunk of the run * groups + group]``: [chunk, state_size] by what the state is; ``adds`` [state_size,
    chunk] by what the rows of a full chunk tell it; both give a column for each value of the group's heads.

    Raises:
        ValueError: products of other shapes, or too few.
    """

    def __init__(
        self, shape: ScanShape, reads: Sequence[HalfProduct], adds: Sequence[HalfProduct], rows: int
    ) -> None:
        size, chunk, groups, width = shape.state_size, shape.chunk, shape.groups, shape.group_width
        if not takes_halves(shape):
            raise ValueError(
                f"heads of {shape.head_dim}, states of {size}, chunks of {chunk}: must be multiples of "
                f"{HALF_WIDTH}, {HALF_DEPTH} and {HALF_DEPTH}"
            )
        most = chunks_touched(rows, chunk)
        self.rows = rows
        self.shape = shape
        self._kept: list[Any] = []
        fields: dict[str, Any] = {}
        for name, products, high, k in (("read", reads, chunk, size), ("add", adds, size, chunk)):
            if len(products) != most * groups:
                raise ValueError(f"{len(products)} products to {name}, {most * groups} are needed")
            for product in products:
                require(product.a, np.float16, (high, k), f"rows to {name}")
                require(product.tiles, np.float16, (width * k,), f"tiles to {name}")
                require(product.output, np.float32, (high, width), f"results to {name}")
            fields[f"{name}_rows"] = self._table("uint16_t *[]", [product.a for product in products])
            fields[f"{name}_tiles"] = self._table("uint16_t *[]", [product.tiles for product in products])
            fields[name] = self._table("float *[]", [product.output for product in products])
        for name, count in (
            ("row_scales", rows * groups),
            ("chunk_scales", most * groups),
            ("input_scales", most * shape.heads),
            ("state_scales", most * shape.heads),
            ("before", rows * shape.heads),
            ("spans", most * shape.heads),
        ):
            scales = np.zeros(count, np.float32)
            self._kept.append(scales)
            fields[name] = address(scales, "float *")
        self._record = ffi.new("ork_scan_halves *", fields)

    def _table(self, kind: str, arrays: list[np.ndarray]) -> Any:
        pointer = kind.removesuffix("[]")
        table = ffi.new(kind, [address(array, pointer) for array in arrays])
        self._kept += [table, *arrays]
        return table

    def begin(self, steps: Steps, rows: ScanRows) -> None:
        """What the adding products read, and what rows of a chunk see of each other."""
        self._steps(steps, rows, "scan_products", "scan_operands", "scan_inside")

    def carry(self, steps: Steps, rows: ScanRows) -> None:
        """After the adding products: the states at the beginning of each chunk, which the reading ones take."""
        self._steps(steps, rows, "scan_carry")

    def finish(self, steps: Steps, rows: ScanRows) -> None:
        """After the reading products: the output."""
        self._steps(steps, rows, "scan_finish")

    def _steps(self, steps: Steps, rows: ScanRows, *kinds: str) -> None:
        if rows.held.shape != self.shape:
            raise ValueError(f"a scan of {rows.held.shape}, made for {self.shape}")
        steps.keep([self])
        for kind in kinds:
            fields = rows.fields | {"halves": self._record}
            steps.checked_step(kind, min(rows.rows, self.rows), fields, member="scan")
