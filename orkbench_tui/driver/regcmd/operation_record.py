"""The record of an operation read from registers, and its JSON form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

__all__ = ["Banks", "Conversion", "Layout", "Operation", "Problem"]


@dataclass(frozen=True, slots=True)
class Problem:
    """``severity`` is ``error`` (the chip would hang or give wrong numbers) or ``caution``."""

    severity: str
    rule: str
    text: str


@dataclass(frozen=True, slots=True)
class Layout:
    """How an operand lies in memory.

    ``geometry`` is row_major, cube, fold (a cube whose rows are the width), panel, int4_batch, flat
    or strided (none of these). ``row_pitch_bytes`` is the distance of two rows, ``surface_pitch_bytes``
    of two 16-byte columns; None where the geometry has no single one.
    """

    geometry: str
    row_pitch_bytes: int | None
    surface_pitch_bytes: int | None
    panel_rows: int | None = None

    @property
    def cube_rows(self) -> int | None:
        """Rows of the whole cube a cube or fold operand is cut from."""
        if self.geometry in ("cube", "fold") and self.surface_pitch_bytes is not None:
            return self.surface_pitch_bytes // 16
        return None


@dataclass(frozen=True, slots=True)
class Banks:
    """Banks of the convolution buffer; ``needed`` is what the features fill."""

    data: int
    weight: int
    needed: int
    data_reuse: bool
    weight_reuse: bool


@dataclass(frozen=True, slots=True)
class Conversion:
    """The output converter: ``x*scale >> shift, + offset``, or the offset first."""

    scale: int
    shift: int
    offset: int
    order: str
    rounding: str
    minus_exponent: int
    fp32_to_fp16: bool

    @property
    def identity(self) -> bool:
        return self.scale == 1 and not (self.shift or self.offset or self.minus_exponent)


@dataclass(frozen=True, slots=True)
class Operation:
    """What one program amounts to.

    ``m``, ``k`` and ``n`` are rows, contraction length and columns (``k`` None without a contraction);
    ``a`` the first input, ``w`` weights, ``b`` the second element-wise input, ``c`` the output, as
    32-bit addresses. ``published`` names the known program whose words these are. ``details`` holds
    what only this kind of operation has.
    """

    op: str
    dtype: str | None = None
    m: int | None = None
    k: int | None = None
    n: int | None = None
    a: int | None = None
    w: int | None = None
    b: int | None = None
    c: int | None = None
    geometry: str | None = None
    a_layout: Layout | None = None
    c_layout: Layout | None = None
    banks: Banks | None = None
    conversion: Conversion | None = None
    published: str | None = None
    details: Mapping[str, Any] = field(default_factory=dict)
    enable: int = 0
    enable_inferred: bool = False
    int_mask: int | None = None
    regcfg_amount: int = 0
    chained_to: int | None = None
    inherited_registers: int = 0
    problems: tuple[Problem, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """JSON form: addresses and masks as hex strings, everything else as it is."""
        data = asdict(self)
        data["problems"] = list(data["problems"])
        for name in ("a", "w", "b", "c", "enable", "int_mask", "chained_to"):
            if data[name] is not None:
                data[name] = f"{data[name]:#x}"
        for name, layout in (("a_layout", self.a_layout), ("c_layout", self.c_layout)):
            if layout is not None:
                data[name]["cube_rows"] = layout.cube_rows
        if self.conversion is not None:
            data["conversion"]["identity"] = self.conversion.identity
        return data
