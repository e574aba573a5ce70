"""What the DMA core prints when an import is unmapped in a domain that does not hold it."""

from __future__ import annotations

from orkbench_tui.sim.kernel.kernel_log import KernelLog

__all__ = ["log_unmap_warning"]

_HEAD = "CPU: 5 PID: {pid}"
_CALLS = (
    "__iommu_dma_unmap+0xe4/0xf8",
    "iommu_dma_unmap_sg+0x138/0x150",
    "dma_unmap_sg_attrs+0x4c/0x60",
    "system_heap_unmap_dma_buf+0x3c/0x50",
    "dma_buf_unmap_attachment+0x54/0x80",
    "drm_prime_gem_destroy+0x2c/0x48",
    "rknpu_gem_object_destroy+0xa4/0x1a0",
    "rknpu_gem_free_object+0x38/0x58",
    "drm_gem_object_free+0x38/0x58",
)


def log_unmap_warning(log: KernelLog, pid: int) -> None:
    """One block per mapping; monitors count them by the line after ``cut here``."""
    head = _HEAD.format(pid=pid)
    log.trace(
        [
            "------------[ cut here ]------------",
            f"WARNING: {head} at drivers/iommu/dma-iommu.c:841 __iommu_dma_unmap+0xe4/0xf8",
            f"{head} Comm: ork Tainted: G        W          6.1.115-vendor-rk35xx #1",
            "Hardware name: Radxa ROCK 5B (DT)",
            "Call trace:",
            *(f" {call}" for call in _CALLS),
            "---[ end trace 0000000000000000 ]---",
        ]
    )
