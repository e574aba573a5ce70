"""Number types of the element-wise unit: what a cube of them looks like and how large a program may be.

The row ceilings are measured (``SDP_MAX_ROWS``); int32 and fp32 have none of their own and take the lowest.
Channel bounds are the largest that sources have run, not field limits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from orkbench_tui.driver import guards
from orkbench_tui.driver.matmul.splitting import even_parts
from orkbench_tui.driver.regcmd.operation_tables import SDP_MAX_ROWS
from orkbench_tui.driver.regcmd.registers import Precision, value_of

__all__ = ["FORMATS", "SdpFormat", "Tile", "checked_rows", "tiles"]

_LOWEST_ROW_CEILING = min(SDP_MAX_ROWS.values())
_FP16_TABLE_ELEMENTS = 32768
_ATOM = 16


@dataclass(frozen=True, slots=True)
class SdpFormat:
    """One number type. A cube is ``[channels / per_atom][rows][per_atom]``, an atom is 16 bytes."""

    name: str
    type: type[np.generic]
    precision: Precision
    max_channels: int

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(self.type)

    @property
    def per_atom(self) -> int:
        return _ATOM // self.dtype.itemsize

    @property
    def max_rows(self) -> int:
        return SDP_MAX_ROWS.get(self.precision, _LOWEST_ROW_CEILING)

    @property
    def floating(self) -> bool:
        return self.dtype.kind == "f"

    @property
    def factor_dtype(self) -> np.dtype[Any]:
        """What BN reads per channel: 16 bits whatever the data's type."""
        return np.dtype(np.float16 if self.floating else np.int16)

    @property
    def size_code(self) -> int:
        """How EW and its read engine are told the size of an operand: 1, 2, 3 for 8, 16, 32 bits."""
        return self.dtype.itemsize.bit_length()

    @property
    def main_data(self) -> int:
        """The read engine's mode word for main data of this type."""
        return value_of(
            "rdma_feature_mode_cfg",
            in_precision=self.precision,
            proc_precision=self.precision,
            fp16tofp32_en=int(self.precision is Precision.FP16),
            burst_len=15,
            flying_mode=1,
        )

    @property
    def limits(self) -> tuple[int, int]:
        """Lowest and highest code of an integer type.

        Raises:
            ValueError: the type is floating.
        """
        if self.floating:
            raise ValueError(f"{self.name} has no codes")
        info = np.iinfo(self.dtype)
        return int(info.min), int(info.max)


FORMATS: Mapping[str, SdpFormat] = MappingProxyType(
    {
        f.name: f
        for f in (
            SdpFormat("int8", np.int8, Precision.INT8, 7680),
            SdpFormat("int16", np.int16, Precision.INT16, 7680),
            SdpFormat("fp16", np.float16, Precision.FP16, 7680),
            SdpFormat("int32", np.int32, Precision.INT32, 1024),
            SdpFormat("fp32", np.float32, Precision.FP32, 1024),
        )
    }
)


def checked_rows(format: SdpFormat, rows: int) -> int:
    """``rows`` when one program can have that many.

    Raises:
        RefusedError: above the ceiling (GRD-17).
    """
    if not 1 <= rows <= format.max_rows:
        guards.refuse("GRD-17", seen=f"{rows} rows of {format.name}, allowed: 1 to {format.max_rows}")
    return rows


@dataclass(frozen=True, slots=True)
class Tile:
    """Rows ``[row, row + rows)`` and channels ``[channel, channel + channels)`` of an operation."""

    row: int
    rows: int
    channel: int
    channels: int

    @property
    def elements(self) -> int:
        return self.rows * self.channels

    @property
    def window(self) -> tuple[slice, slice]:
        return slice(self.row, self.row + self.rows), slice(self.channel, self.channel + self.channels)


def tiles(format: SdpFormat, rows: int, channels: int, *, table: bool = False) -> tuple[Tile, ...]:
    """An operation in programs that keep every ceiling; covers each element once.

    Args:
        rows, channels: channels a multiple of ``format.per_atom``.
        table: whether a function table is applied, which bounds fp16 programs by their elements.
    """
    row_limit, channel_limit = format.max_rows, format.max_channels
    if table and format.precision is Precision.FP16:
        channel_limit = min(channel_limit, _FP16_TABLE_ELEMENTS // 32)
        row_limit = min(row_limit, _FP16_TABLE_ELEMENTS // min(channels, channel_limit))
    return tuple(
        Tile(row, height, channel, width)
        for channel, width in even_parts(channels, -(-channels // channel_limit), format.per_atom)
        for row, height in even_parts(rows, -(-rows // row_limit), 1)
    )
