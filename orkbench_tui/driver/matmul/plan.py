"""One matmul as a plan: which programs compute it, and where in its operands they read and write.

A plan knows sizes and offsets; the memory is named only when programs are made.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np

from orkbench_tui.driver.chip_programs import require_known_programs
from orkbench_tui.driver.failures import OperandError
from orkbench_tui.driver.matmul.assembly import Program
from orkbench_tui.driver.matmul.placement import Block, placement_for
from orkbench_tui.driver.matmul.reuse import WeightReuse, require_banks, reuse_columns, rows_beside
from orkbench_tui.driver.matmul.splitting import column_segments, even_parts, row_tiles
from orkbench_tui.driver.matmul.weights import Weight
from orkbench_tui.driver.memory import Slice
from orkbench_tui.driver.regcmd.programs import MatmulShape, OutputConversion, matmul_body
from orkbench_tui.driver.soc import Soc

__all__ = ["MatmulPlan"]


def _require_convertible(weight: Weight) -> None:
    format = weight.format
    if np.issubdtype(format.result, np.floating):
        raise OperandError(
            "matmul", why=f"a scale and shift for results of {format.name}; allowed: integer results"
        )
    if len(weight.slices) > 1:
        raise OperandError(
            "matmul",
            why=f"a scale and shift for K = {weight.k}, added up from {len(weight.slices)} slices; "
            f"allowed: K up to {format.k_limit}",
        )


class MatmulPlan:
    """``C_i = A x B_i`` for fixed rows, its columns cut for ``cores`` cores.

    Raises:
        OperandError: no weights or rows, weights that differ in format or K, or a conversion of results
            that are floating or added up from slices of K.
        RefusedError: a chip without known programs, a shape it cannot run, or weights that would not stay where ``reuse`` asks it.
    """

    def __init__(
        self,
        soc: Soc,
        weights: Sequence[Weight],
        rows: int,
        convert: OutputConversion | None = None,
        *,
        cores: int,
        reuse: WeightReuse | None = None,
    ) -> None:
        require_known_programs(soc)
        if not weights or rows < 1:
            raise OperandError(
                "matmul", why=f"{len(weights)} weights and {rows} rows; both must be at least 1"
            )
        self.format = weights[0].format
        if any(weight.format is not self.format for weight in weights):
            raise OperandError(
                "matmul",
                why=f"weights of one matmul must share their format, not {[w.format.name for w in weights]}",
            )
        if len({tuple((s.first, s.length) for s in weight.slices) for weight in weights}) != 1:
            raise OperandError("matmul", why="weights of one matmul must share K")
        if len({weight.domain for weight in weights}) != 1:
            raise OperandError(
                "matmul",
                why=f"weights of one matmul must lie in one domain, not {[w.domain for w in weights]}",
            )
        if reuse is not None:
            require_banks(soc, reuse.weight_banks)
        if convert is not None:
            _require_convertible(weights[0])
        self.domain = weights[0].domain
        self._soc = soc
        self._cores = cores
        self._convert = convert
        self._reuse = reuse
        self.weights = tuple(weights)
        self.rows = rows
        self.k = weights[0].k
        self.placement = placement_for(self.format, rows, self.k)
        self.blocks = self._result_blocks()
        self.a_bytes = self.format.memory_bytes(rows * self.k)
        self.c_bytes = sum(rows * block.width for block in self.blocks) * self.format.precision.output_bytes

    def _result_blocks(self) -> list[Block]:
        precision = self.format.precision
        blocks = []
        start = 0
        for index, weight in enumerate(self.weights):
            count = -(-weight.n // self.placement.widest_block(self._soc))
            for part in range(len(weight.slices)):
                for column, width in even_parts(weight.n, count, precision.kernel_group):
                    blocks.append(Block(index, part, column, width, start))
                    start += self.rows * width * precision.output_bytes
        return blocks

    @property
    def tile_rows(self) -> tuple[int, ...]:
        """Rows of the programs of the first block, in order."""
        return tuple(height for _, height in self._row_tiles(self.blocks[0]))

    @property
    def steps(self) -> int:
        """How many programs it takes."""
        return sum(len(self._row_tiles(block)) * len(list(self._columns(block))) for block in self.blocks)

    def _row_tiles(self, block: Block) -> list[tuple[int, int]]:
        length = self.weights[block.weight].slices[block.part].length
        cap = self.format.rows_cap(self._soc, length, block.width)
        if self._reuse:
            cap = min(cap, rows_beside(self._soc, self.format.precision, length, self._reuse.weight_banks))
        return row_tiles(self.rows, cap)

    def lies_in_place(self, index: int) -> bool:
        """Whether one block of row-major memory holds the result of weight ``index``."""
        return self.placement.in_place and sum(block.weight == index for block in self.blocks) == 1

    def programs(self, a: Slice, c: Slice, outputs: Sequence[Slice | None] = ()) -> list[Program]:
        """The programs, reading A from ``a`` and writing to ``c``, or to ``outputs[i]`` where that is given."""
        programs = []
        for block in self.blocks:
            own = outputs[block.weight] if outputs else None
            base = c.iova if own is None else own.iova - block.start
            programs += self._block_programs(block, a.iova, base)
        return programs

    def _block_programs(self, block: Block, a: int, c: int) -> list[Program]:
        soc, format, place = self._soc, self.format, self.placement
        weight = self.weights[block.weight]
        part = weight.slices[block.part]
        programs = []
        # Programs that share weights follow each other where weights are kept, else those that share rows.
        cuts = list(product(self._row_tiles(block), self._columns(block)))
        if self._reuse:
            cuts.sort(key=lambda cut: cut[1][0])
        for (row, height), (column, width, tiles) in cuts:
            kept = self._reuse is not None and row > 0
            shape = MatmulShape(
                rows=height,
                k=part.length,
                n=width,
                a=a + place.a_offset(row, part.first),
                b=tiles.iova,
                c=c + place.c_offset(block, row, column),
                data_banks=soc.cbuf_banks - self._reuse.weight_banks
                if self._reuse
                else format.banks(soc, height, part.length),
                reuse_weights=kept,
                **place.shape_fields(block),
            )
            body = matmul_body(soc, format.precision, format.geometry, shape, self._convert)
            imports = frozenset([tiles.buffer.handle] if tiles.buffer.source else [])
            programs.append(Program(body, part.length * width * (height + 64), imports, joined=kept))
        return programs

    def _columns(self, block: Block) -> Iterator[tuple[int, int, Slice]]:
        """(column within the block, width, tiles) of the block's programs, cut where tiles lie apart."""
        for column, width in column_segments(self._soc, self.format.precision, block.width, self._cores):
            weight = self.weights[block.weight]
            for start, length in self._cut(block, width):
                first_column = block.column + column + start
                for first, count, tiles in weight.spans(block.part, first_column, length):
                    yield first - block.column, count, tiles

    def _cut(self, block: Block, width: int) -> list[tuple[int, int]]:
        """A core's columns in parts whose weights stay, where that is asked for and rows are tiled."""
        if self._reuse is None or len(self._row_tiles(block)) == 1:
            return [(0, width)]
        precision, k = self.format.precision, self.weights[block.weight].slices[block.part].length
        columns = reuse_columns(self._soc, precision, k, width, self._reuse)
        return even_parts(width, -(-width // columns), precision.kernel_group)

    def output_array(self, index: int, c: Slice) -> np.ndarray:
        """The result of weight ``index``: a view of ``c`` where it lies in place, else a fresh array."""
        if self.lies_in_place(index):
            block = next(block for block in self.blocks if block.weight == index)
            return self.placement.result(c.view, block)
        return np.empty((self.rows, self.weights[index].n), dtype=self.format.total)

    def gather(self, c: Slice, outputs: Sequence[np.ndarray | None]) -> None:
        """Results in ``c`` into ``outputs``, K slices added up; None where the result is read in place."""
        for block in self.blocks:
            output = outputs[block.weight]
            if output is None:
                continue
            target = output[:, block.column : block.column + block.width]
            result = self.placement.result(c.view, block)
            if block.part:
                target += result
            else:
                target[:] = result
