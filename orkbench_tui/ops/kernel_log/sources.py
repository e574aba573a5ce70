"""Who prints a line: the ``source`` column of the rule table, by the first words of a rule's id."""

from __future__ import annotations

__all__ = ["SOURCES", "printed_by"]

# The longest beginning that fits an id says where its lines come from.
SOURCES: dict[str, str] = {
    "npu.reset": "rknpu_reset.c",
    "npu.job": "rknpu_job.c",
    "npu.irq": "rknpu_job.c",
    "npu.submit": "rknpu_job.c",
    "npu.fence": "rknpu_fence.c",
    "npu.user": "rknpu_drv.c, rknpu_gem.c, rknpu_mem.c",
    "npu.iommu": "rknpu_iommu.c",
    "npu.iommu.fault": "rockchip-iommu.c",
    "npu.iommu.bus": "rockchip-iommu.c",
    "npu.iommu.wedged": "rockchip-iommu.c",
    "npu.iommu.table": "rockchip-iommu.c",
    "npu.mem": "rknpu_gem.c, rknpu_mem.c",
    "npu.mem.still_mapped": "rockchip-iommu.c",
    "npu.mem.unmap_leak": "dma-iommu.c",
    "npu.sram": "rknpu_mm.c, rknpu_gem.c",
    "npu.power": "rknpu_drv.c",
    "npu.power.panic": "rockchip pm_domains.c",
    "npu.power.manual": "rknpu_debugger.c",
    "npu.devfreq": "rknpu_devfreq.c, opp/of.c",
    "npu.boot": "rknpu_drv.c",
    "npu.unbind": "rknpu_drv.c",
    "npu.rail": "regulator/core.c",
    "npu.unknown": "not known",
    "rocket": "rocket_job.c",
    "kernel.panic": "panic.c",
    "kernel.hung_task": "hung_task.c",
    "kernel.abort": "arm64 fault.c, traps.c",
    "kernel.stall": "rcu/tree_stall.h",
    "kernel.oom": "mm/oom_kill.c",
    "kernel.pages": "mm/page_alloc.c",
    "kernel.cma": "mm/cma.c",
    "kernel.swiotlb": "dma/swiotlb.c",
    "ddr": "rockchip_dmc.c",
    "gpu": "rockchip clk pvtpll",
    "thermal": "thermal_core.c",
}


def printed_by(rule_id: str) -> str:
    """The kernel's source file; "" for an id no entry fits."""
    words = rule_id.split(".")
    while words:
        if found := SOURCES.get(".".join(words)):
            return found
        words.pop()
    return ""
