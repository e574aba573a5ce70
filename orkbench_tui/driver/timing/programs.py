"""One program, a chain of them and a matmul over the cores: the NPU's own time.

A program streams its weights while the MAC array works, if the weight banks hold two kernel groups;
with room for one the two follow each other. Results are written after that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from orkbench_tui.driver.soc import RK3588, Soc
from orkbench_tui.driver.timing.constants import value

__all__ = [
    "KERNEL_GROUP",
    "MACS_SHARE",
    "Shape",
    "busy_ns",
    "chain_ns",
    "element_wise_ns",
    "hardware_ns",
    "program_ns",
    "rows_per_program",
]

MACS_SHARE = {4: 2.0, 8: 1.0, 16: 0.5, 32: 0.25}
"""Rate by bits of an input element against int8. Only int8 is published; the others are assumed."""

KERNEL_GROUP = {4: 64, 8: 32, 16: 16, 32: 8}
"""Columns that are fetched together, by bits of an input element."""


@dataclass(frozen=True, slots=True)
class Shape:
    """A matmul (M, K, N); ``bits`` of an input element, ``output_bytes`` of one result."""

    M: int
    K: int
    N: int
    bits: int = 8
    output_bytes: int = 4

    @property
    def macs(self) -> int:
        return self.M * self.K * self.N

    @property
    def weight_bytes(self) -> int:
        return self.K * self.N * self.bits // 8

    @property
    def result_bytes(self) -> int:
        return self.M * self.N * self.output_bytes

    @property
    def row_bytes(self) -> int:
        return self.K * self.bits // 8


def program_ns(shape: Shape, *, rate: float | None = None, soc: Soc = RK3588) -> float:
    """Time of one program that is already queued; ``rate`` in bytes/ns is what its core gets from memory."""
    return busy_ns(
        shape.macs,
        shape.weight_bytes,
        shape.bits,
        shape.result_bytes,
        buffered=_double_buffered(shape, soc),
        rate=rate,
        clock_hz=soc.max_freq_hz,
    )


def busy_ns(
    macs: int,
    weight_bytes: int,
    bits: int,
    result_bytes: int,
    *,
    buffered: bool,
    rate: float | None = None,
    clock_hz: int = RK3588.max_freq_hz,
) -> float:
    """The same for a program known by its work; a core alone at the memory where ``rate`` is left out.

    ``buffered``: the weight banks hold two kernel groups, so that fetch and work overlap.
    """
    stream = rate or value("weight_rate")
    fetch = weight_bytes / stream
    work = macs / (value("int8_macs") * value("mac_efficiency") * MACS_SHARE[bits] * clock_hz / 1e9)
    busy = max(fetch, work) if buffered else fetch + work
    return value("program_floor") + busy + result_bytes / stream


def _double_buffered(shape: Shape, soc: Soc) -> bool:
    data = -(-shape.M * shape.row_bytes // soc.cbuf_bank_bytes)
    group = KERNEL_GROUP[shape.bits] * shape.row_bytes
    return (soc.cbuf_banks - data) * soc.cbuf_bank_bytes >= 2 * group


def element_wise_ns(traffic_bytes: int) -> float:
    """Time of one stand-alone element-wise program. Assumed: its bytes at the weight stream's rate."""
    return value("program_floor") + traffic_bytes / value("weight_rate")


def chain_ns(shapes: Sequence[Shape], *, soc: Soc = RK3588) -> float:
    """One submit of chained programs on one core, without the submit."""
    return sum(program_ns(shape, soc=soc) for shape in shapes)


def rows_per_program(K: int, bits: int = 8, soc: Soc = RK3588, *, groups: int = 1) -> int:
    """Rows whose features fit beside ``groups`` kernel groups; 0 where there is no room for one."""
    row = max(1, K * bits // 8)
    group_banks = max(2, -(-groups * KERNEL_GROUP[bits] * row // soc.cbuf_bank_bytes))
    rows = max(0, soc.cbuf_banks - group_banks) * soc.cbuf_bank_bytes // row
    return min(rows, soc.max_rows_per_program)


def hardware_ns(shape: Shape, cores: int = 1, soc: Soc = RK3588) -> float:
    """NPU time of one matmul cut by rows, K and columns; cores share the memory's rate.

    Rows are cut the cheaper way: few tall programs, or shorter ones whose weights are double-buffered.
    K above the chip's limit goes as equal slices, added up by the CPU, which is not counted here.
    """
    cores = max(1, min(cores, soc.cores))
    slices = -(-shape.K // soc.max_k_int8)
    part = replace(shape, K=-(-shape.K // slices), N=-(-shape.N // cores))
    rate = min(value("weight_rate"), value("shared_rate") / cores)
    cuts = {rows_per_program(part.K, shape.bits, soc, groups=groups) for groups in (1, 2)} - {0}
    return slices * min(
        (_tiles_ns(part, rows, rate, soc) for rows in cuts), default=_tiles_ns(part, 1, rate, soc)
    )


def _tiles_ns(shape: Shape, rows: int, rate: float, soc: Soc) -> float:
    full, rest = divmod(shape.M, rows)
    tall = full * program_ns(replace(shape, M=rows), rate=rate, soc=soc) if full else 0.0
    return tall + (program_ns(replace(shape, M=rest), rate=rate, soc=soc) if rest else 0.0)
