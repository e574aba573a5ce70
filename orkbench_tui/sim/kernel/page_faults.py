"""What rockchip-iommu prints when the NPU touches an address that is not mapped."""

from __future__ import annotations

from orkbench_tui.sim.chip.address_space import AddressSpace
from orkbench_tui.sim.kernel.kernel_log import ERR, KernelLog

__all__ = ["log_page_fault"]

_DIRECTORY = 0x04B8C000
_TABLE = 0x05A3D000
"""Physical addresses of the page directory and of a page table: invented, as no table exists here."""


def log_page_fault(log: KernelLog, iova: int, write: bool, space: AddressSpace) -> None:
    dte, pte, offset = iova >> 22, iova >> 12 & 0x3FF, iova & 0xFFF
    window = iova & ~0x3FFFFF
    valid = any(space.segment_at(window + page * 4096) is not None for page in range(1024))
    entry = _TABLE | 1 if valid else 0
    pte_at = _TABLE + 4 * pte if valid else 0
    log.iommu(ERR, f"Page fault at {iova:#018x} of type {'write' if write else 'read'}")
    log.iommu(ERR, f"iova = {iova:#018x}: dte_index: {dte:#x} pte_index: {pte:#x} page_offset: {offset:#x}")
    log.iommu(
        ERR,
        f"mmu_dte_addr: {_DIRECTORY:#018x} dte@{_DIRECTORY + 4 * dte:#018x}: {entry:#08x} valid: {int(valid)} "
        f"pte@{pte_at:#018x}: 0x000000 valid: 0 page@0x0000000000000000 flags: 0x0",
    )
