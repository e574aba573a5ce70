"""The function table: 2 x 513 entries per core, loaded through two registers, applied by interpolation.

The entries outlive programs and submits; a reset clears them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from orkbench_tui.driver.regcmd.registers import REGISTERS
from orkbench_tui.sim.chip.elements import Numbers
from orkbench_tui.sim.chip.faults import ProgramError

__all__ = ["ENTRIES", "LutMemory", "LutSettings", "LutTable", "apply_lut"]

ENTRIES = 513
_ACCESS = REGISTERS["dpu_lut_access_cfg"].fields
_ACCESS_ADDRESS = REGISTERS["dpu_lut_access_cfg"].address
_INDEX_RANGE = 1 << 31


class LutMemory:
    """Table RAM of one core and its access port; zero after reset."""

    def __init__(self) -> None:
        self.tables: NDArray[np.int16] = np.zeros((2, ENTRIES), np.int16)
        """[0] is LE, [1] is LO."""
        self._access = 0
        self._next = 0

    def write(self, register: int, value: int) -> None:
        """A write to the access register, or to the data register, which steps the address.

        Raises:
            ProgramError: an entry beyond the last.
        """
        if register == _ACCESS_ADDRESS:
            self._access, self._next = value, _ACCESS["address"].get(value)
            return
        if not _ACCESS["write"].get(self._access):
            return
        if self._next >= ENTRIES:
            raise ProgramError("table", f"entry {self._next} of a table of {ENTRIES}")
        entry = value & 0xFFFF
        table = _ACCESS["table"].get(self._access)
        self.tables[table, self._next] = entry - 0x10000 if entry >> 15 else entry
        self._next += 1

    def write_all(self, writes: Iterable[tuple[int, int]]) -> None:
        for register, value in writes:
            self.write(register, value)


@dataclass(frozen=True, slots=True)
class LutTable:
    """One table's range and what lies beyond it. ``step`` of an entry is ``2 ** select``."""

    start: int
    end: int
    select: int
    underflow_scale: int
    underflow_shift: int
    overflow_scale: int
    overflow_shift: int


@dataclass(frozen=True, slots=True)
class LutSettings:
    """Both tables and which of them answers: 0 LE, 1 LO."""

    le: LutTable
    lo: LutTable
    hybrid_priority: int
    underflow_priority: int
    overflow_priority: int


def _look_up(entries: NDArray[np.int64], table: LutTable, x: NDArray[np.int64]) -> NDArray[np.int64]:
    inside = np.clip(x, table.start, table.end) - table.start
    index = np.minimum(inside >> table.select, ENTRIES - 1)
    rest = inside - (index << table.select)
    following = entries[np.minimum(index + 1, ENTRIES - 1)]
    value = entries[index] + ((following - entries[index]) * rest >> table.select)
    below = entries[0] + ((x - table.start) * table.underflow_scale >> table.underflow_shift)
    above = entries[-1] + ((x - table.end) * table.overflow_scale >> table.overflow_shift)
    return np.where(x < table.start, below, np.where(x > table.end, above, value))


def _side(table: LutTable, x: NDArray[np.int64]) -> NDArray[np.int8]:
    """-1 below the table, 0 inside, 1 above."""
    return (x > table.end).astype(np.int8) - (x < table.start).astype(np.int8)


def apply_lut(settings: LutSettings, memory: LutMemory, values: Numbers) -> Numbers:
    """Table values of ``values``, same shape. Floating values are rounded to an index, half to even,
    and the result is floating; a NaN stays one.
    """
    floating = values.dtype.kind == "f"
    if floating:
        bounded = np.clip(np.nan_to_num(values.astype(np.float64), nan=0.0), -_INDEX_RANGE, _INDEX_RANGE - 1)
        x = np.rint(bounded).astype(np.int64)
    else:
        x = np.clip(values, -_INDEX_RANGE, _INDEX_RANGE - 1)
    tables = memory.tables.astype(np.int64)
    le, lo = (_look_up(tables[i], t, x) for i, t in enumerate((settings.le, settings.lo)))
    le_side, lo_side = _side(settings.le, x), _side(settings.lo, x)
    both = np.where(
        le_side != lo_side,
        settings.hybrid_priority,
        np.choose(
            le_side + 1, [settings.underflow_priority, settings.hybrid_priority, settings.overflow_priority]
        ),
    )
    use_lo = np.where((le_side == 0) & (lo_side != 0), 0, np.where((lo_side == 0) & (le_side != 0), 1, both))
    result = np.where(use_lo == 1, lo, le)
    if not floating:
        return result
    return np.where(np.isnan(values), np.float32(np.nan), result.astype(np.float32))
