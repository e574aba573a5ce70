"""RKNPU_ACTION: the small questions and orders, as one table."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from orkbench_tui.driver.uapi import HW_VERSION_RK3588, Action, ActionCode
from orkbench_tui.sim.kernel.kernel_log import WARN

if TYPE_CHECKING:
    from orkbench_tui.sim.kernel.rknpu import RknpuKernel

__all__ = ["run_action"]

_VALUES = {
    ActionCode.GET_HW_VERSION: HW_VERSION_RK3588,
}
_DOMAIN_ACTIONS = (ActionCode.GET_IOMMU_DOMAIN_ID, ActionCode.SET_IOMMU_DOMAIN_ID)
_COUNTERS = {
    ActionCode.ACT_CLR_TOTAL_RW_AMOUNT: "Clear rw_amount is not supported on this device!",
    ActionCode.GET_DT_WR_AMOUNT: "Get rw_amount is not supported on this device!",
    ActionCode.GET_DT_RD_AMOUNT: "Get rw_amount is not supported on this device!",
    ActionCode.GET_WT_RD_AMOUNT: "Get rw_amount is not supported on this device!",
    ActionCode.GET_TOTAL_RW_AMOUNT: "Get total_rw_amount is not supported on this device!",
}


def run_action(kernel: RknpuKernel, action: Action) -> None:
    """Answer in place. Raises OSError(EINVAL) for what the driver refuses or does not know."""
    try:
        code = ActionCode(action.flags)
    except ValueError:
        raise OSError(errno.EINVAL, "action") from None
    if code in _DOMAIN_ACTIONS and not kernel.driver.domains:
        raise OSError(errno.EINVAL, "action")
    if code in _VALUES:
        action.value = _VALUES[code]
    elif code is ActionCode.GET_DRV_VERSION:
        action.value = kernel.driver.code
    elif code is ActionCode.GET_IOMMU_EN:
        action.value = int(kernel.profile.iommu_enabled)
    elif code is ActionCode.GET_FREQ:
        action.value = kernel.clock_hz
    elif code is ActionCode.GET_VOLT:
        action.value = kernel.profile.microvolts
    elif code is ActionCode.GET_TOTAL_SRAM_SIZE:
        action.value = kernel.memory.sram.total
    elif code is ActionCode.GET_FREE_SRAM_SIZE:
        with kernel.condition:
            action.value = kernel.memory.sram.free
    elif code in _COUNTERS:
        kernel.log.driver(WARN, _COUNTERS[code])
    elif code is ActionCode.ACT_RESET:
        kernel.scheduler.soft_reset()
    elif code is ActionCode.GET_IOMMU_DOMAIN_ID:
        action.value = kernel.domains.live
    elif code is ActionCode.SET_IOMMU_DOMAIN_ID:
        with kernel.condition:
            kernel.domains.switch(action.value)
    elif code is not ActionCode.SET_PROC_NICE:
        raise OSError(errno.EINVAL, "action")
