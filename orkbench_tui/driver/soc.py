"""Chip limits, as data per chip. Nothing else in the project may hold one of these numbers.

Sources: docs/fidelity.md, "chip limits".
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["RK3566", "RK3576", "RK3588", "SOCS", "Soc"]


@dataclass(frozen=True, slots=True)
class Soc:
    """One chip. Sizes in bytes; counts of what the name says."""

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
    max_row_stride_atoms: int = 8192
    iova_bits: int = 32
    iova_guard_bytes: int = 3900 << 20
    sram_bytes: int = 0xEF000
    max_freq_hz: int = 1_000_000_000
    validated: bool = True

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
    sram_bytes=0,
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
    max_freq_hz=900_000_000,
    validated=False,
)

SOCS = {soc.name: soc for soc in (RK3588, RK3576, RK3566)}
