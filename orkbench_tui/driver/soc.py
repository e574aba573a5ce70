"""Chip limits, as data per chip. Nothing else in the project may hold one of these numbers.

Sources: docs/fidelity.md, "chip limits". Cores, masks, scales, commit sizes and on-chip memories are the
vendor driver's configuration table; what a row does not say is RK3588's value, which nobody has checked
on that chip.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

__all__ = [
    "RK3562",
    "RK3566",
    "RK3568",
    "RK3576",
    "RK3583",
    "RK3588",
    "SOCS",
    "Soc",
    "not_validated",
    "soc_for",
]


@dataclass(frozen=True, slots=True)
class Soc:
    """One chip. Sizes in bytes; counts of what the name says.

    ``core_base`` and ``iommu_base`` are empty and 0 where no source names them. ``nbuf_bytes`` is a second
    on-chip memory some chips have. ``validated`` says that this driver's programs were seen to work there, ``programs_known`` that
    somebody has published what to write into its registers, for it or a chip of its layout.
    """

    name: str
    cores: int
    core_mask: int
    core_base: tuple[int, ...]
    iommu_base: int
    reset_lines: int
    cbuf_banks: int = 12
    cbuf_bank_bytes: int = 32768
    cbuf_entry_bytes: int = 64
    atom_bytes: int = 16
    amount_scale: int = 2
    max_tasks_per_commit: int = 4095
    max_n_per_program: int = 8192
    max_rows_per_program: int = 1022
    max_k_int8: int = 8192
    max_rows_int4: int = 128
    max_n_int4: int = 4096
    max_row_stride_atoms: int = 8192
    iova_bits: int = 32
    iova_guard_bytes: int = 3900 << 20
    sram_bytes: int = 0xEF000
    nbuf_bytes: int = 0
    dma_bits: int = 40
    max_freq_hz: int = 1_000_000_000
    validated: bool = True
    programs_known: bool = True

    @property
    def iova_space_bytes(self) -> int:
        return 1 << self.iova_bits


RK3588 = Soc(
    name="rk3588",
    cores=3,
    core_mask=0x7,
    core_base=(0xFDAB0000, 0xFDAC0000, 0xFDAD0000),
    iommu_base=0xFDAB9000,
    reset_lines=6,
)

RK3576 = Soc(
    name="rk3576",
    cores=2,
    core_mask=0x3,
    core_base=(0x27700000, 0x27710000),
    iommu_base=0x27702000,
    reset_lines=4,
    max_tasks_per_commit=65535,
    # The vendor's library cuts B there.
    max_k_int8=4096,
    sram_bytes=0,
    nbuf_bytes=1 << 20,
    max_freq_hz=950_000_000,
    validated=False,
)

RK3566 = Soc(
    name="rk3566",
    cores=1,
    core_mask=0x1,
    core_base=(0xFDE40000,),
    iommu_base=0xFDE4B000,
    reset_lines=2,
    amount_scale=1,
    sram_bytes=0,
    dma_bits=32,
    max_freq_hz=900_000_000,
    validated=False,
    programs_known=False,
)

RK3568 = replace(RK3566, name="rk3568")

RK3562 = Soc(
    name="rk3562",
    cores=1,
    core_mask=0x1,
    core_base=(0xFF300000,),
    iommu_base=0,
    reset_lines=2,
    max_tasks_per_commit=65535,
    sram_bytes=0,
    nbuf_bytes=256 << 10,
    validated=False,
    programs_known=False,
)

RK3583 = Soc(
    name="rk3583",
    cores=2,
    core_mask=0x3,
    core_base=(),
    iommu_base=0,
    reset_lines=4,
    validated=False,
)

SOCS = {soc.name: soc for soc in (RK3588, RK3583, RK3576, RK3568, RK3566, RK3562)}

_CHIP = re.compile(r"rockchip,(rk\d{4})")


def soc_for(compatible: Sequence[str]) -> Soc | None:
    """The chip a board's root or NPU node names, from its ``compatible`` strings; None when it is not known.

    Strings go from the board to the chip, so the last known one counts: some vendors write another chip's
    name into the board's.
    """
    for entry in reversed(compatible):
        found = _CHIP.match(entry)
        if found and found[1] in SOCS:
            return SOCS[found[1]]
    return None


def not_validated(soc: Soc) -> str:
    """What to tell the user once about a chip these programs have not run on; "" for the others."""
    if soc.validated:
        return ""
    if not soc.programs_known:
        return f"{soc.name}: nobody has published register programs for it, so nothing is computed on its NPU"
    return (
        f"{soc.name} is not validated: its limits are RK3588's where no source gives others, "
        "so check results with `ork npu matmul` before you rely on them"
    )
