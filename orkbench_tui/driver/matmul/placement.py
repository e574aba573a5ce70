"""Where a matmul's operands lie, for the two families of geometry the driver uses.

Row-major operands are handed to the chip as they are. Cubes are packed and unpacked by the host
around a run. A placement answers with byte offsets and array views; it knows no device.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from orkbench_tui.driver.layouts import from_cube, pack_nibbles, to_cube
from orkbench_tui.driver.matmul.formats import MatmulFormat
from orkbench_tui.driver.soc import Soc

__all__ = ["Block", "Placement", "placement_for"]


@dataclass(frozen=True, slots=True)
class Block:
    """Columns ``[column, column + width)`` of one weight's result for one K slice, and where they land.

    A row pitch field bounds how wide a row-major result can be, so very wide results come in blocks.
    ``start`` is a byte offset into the result buffer.
    """

    weight: int
    part: int
    column: int
    width: int
    start: int


class Placement(Protocol):
    """Offsets and views of A and C for ``rows`` rows and ``k`` columns."""

    in_place: bool

    def widest_block(self, soc: Soc) -> int:
        """Columns one block of a result may have."""
        ...

    def a_offset(self, row: int, k0: int) -> int: ...

    def c_offset(self, block: Block, row: int, column: int) -> int: ...

    def shape_fields(self, block: Block) -> dict[str, int]:
        """The pitch fields of ``MatmulShape``."""
        ...

    def a_array(self, view: np.ndarray) -> np.ndarray:
        """What the caller fills: the operand [rows, k]."""
        ...

    def store_a(self, a: np.ndarray, view: np.ndarray) -> None:
        """Bring the caller's operand into device layout."""
        ...

    def result(self, view: np.ndarray, block: Block) -> np.ndarray:
        """A block's result as [rows, width], a view where it lies in place."""
        ...


@dataclass(frozen=True, slots=True)
class _RowMajor:
    format: MatmulFormat
    rows: int
    k: int
    in_place: bool = True

    def widest_block(self, soc: Soc) -> int:
        return soc.max_row_stride_atoms * soc.atom_bytes // self.format.precision.output_bytes

    def a_offset(self, row: int, k0: int) -> int:
        return self.format.memory_bytes(row * self.k + k0)

    def c_offset(self, block: Block, row: int, column: int) -> int:
        return block.start + self.format.precision.output_bytes * (row * block.width + column)

    def shape_fields(self, block: Block) -> dict[str, int]:
        return {"a_pitch": self.k, "c_pitch": block.width}

    def a_array(self, view: np.ndarray) -> np.ndarray:
        return view.view(self.format.operand).reshape(self.rows, self.k)

    def store_a(self, a: np.ndarray, view: np.ndarray) -> None:
        view.view(self.format.operand).reshape(self.rows, self.k)[:] = a

    def result(self, view: np.ndarray, block: Block) -> np.ndarray:
        size = self.rows * block.width * self.format.precision.output_bytes
        return view[block.start : block.start + size].view(self.format.result).reshape(self.rows, block.width)


@dataclass(frozen=True, slots=True)
class _Cube:
    format: MatmulFormat
    rows: int
    k: int
    in_place: bool = False

    @property
    def _per_atom(self) -> int:
        return 128 // self.format.precision.input_bits

    @property
    def _out_per_atom(self) -> int:
        return 16 // self.format.precision.output_bytes

    def widest_block(self, soc: Soc) -> int:
        return self.format.n_limit

    def a_offset(self, row: int, k0: int) -> int:
        return 16 * (k0 // self._per_atom * self.rows + row)

    def c_offset(self, block: Block, row: int, column: int) -> int:
        return block.start + 16 * (column // self._out_per_atom * self.rows + row)

    def shape_fields(self, block: Block) -> dict[str, int]:
        return {"cube_rows": self.rows}

    def a_array(self, view: np.ndarray) -> np.ndarray:
        return np.zeros((self.rows, self.k), dtype=self.format.operand)

    def store_a(self, a: np.ndarray, view: np.ndarray) -> None:
        cube = to_cube(a, self._per_atom)
        view[:] = pack_nibbles(cube) if self.format.packs_nibbles else cube.view(np.uint8)

    def result(self, view: np.ndarray, block: Block) -> np.ndarray:
        size = self.rows * block.width * self.format.precision.output_bytes
        cube = view[block.start : block.start + size].view(self.format.result)
        return from_cube(cube, self.rows, block.width, self._out_per_atom)


_PLACEMENTS: dict[str, Any] = {"row_major": _RowMajor, "fold": _Cube}


def placement_for(format: MatmulFormat, rows: int, k: int) -> Placement:
    """The placement of a format's geometry."""
    placement: Placement = _PLACEMENTS[format.geometry](format, rows, k)
    return placement
