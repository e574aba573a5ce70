"""What setting and clearing a fault does to the running kernel, as one table."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from orkbench_tui.sim.faults.foreign import STUCK_PID
from orkbench_tui.sim.kernel.kernel_log import ERR
from orkbench_tui.sim.kernel.unmap_warning import log_unmap_warning

if TYPE_CHECKING:
    from orkbench_tui.sim.kernel.rknpu import RknpuKernel

__all__ = ["begin", "end"]

_STORM_PERIOD_S = 1.0
_LEAK_STEP = 64 << 20
_LEAKING_PID = 2211
_MMU_BANKS = 4


@dataclass(frozen=True, slots=True)
class Effect:
    begin: Callable[[RknpuKernel, str], None]
    end: Callable[[RknpuKernel], None] = lambda kernel: None


def _wedge(kernel: RknpuKernel, value: str) -> None:
    cores = range(len(kernel.scheduler.cores))
    kernel.scheduler.queues.stall({core for core in cores if value in ("all", str(core))})


def _hard_wedge(kernel: RknpuKernel, value: str) -> None:
    for bank in range(_MMU_BANKS):
        kernel.log.iommu(ERR, f"Disable stall request timed out, retry_count = {bank}, status: 0x00022")
    kernel.log.iommu(ERR, "Error during raw reset. MMU_DTE_ADDR is not functioning")
    kernel.log.driver(ERR, "failed to soft reset for rknpu: -110")
    kernel.scheduler.queues.stall(set(range(len(kernel.scheduler.cores))))
    kernel.dead = "the NPU's block does not answer"


def _reset_storm(kernel: RknpuKernel, value: str) -> None:
    def storm() -> None:
        while not kernel.calm.wait(_STORM_PERIOD_S):
            kernel.scheduler.soft_reset()

    kernel.calm.clear()
    kernel.scheduler.soft_reset()
    threading.Thread(target=storm, name="npu-reset-storm", daemon=True).start()


def _iova_leak(kernel: RknpuKernel, value: str) -> None:
    domain = kernel.domains[0]
    with kernel.condition:
        while (address := domain.iova.allocate(_LEAK_STEP)) is not None:
            domain.leaked.append((address, _LEAK_STEP))
        leaked = len(domain.leaked)
    for _ in range(min(3, leaked)):
        log_unmap_warning(kernel.log, _LEAKING_PID)


def _stuck(kernel: RknpuKernel, value: str) -> None:
    head = f"task:ork-run         state:D stack:0     pid:{STUCK_PID}  ppid:2988   flags:0x00000204"
    calls = ("__switch_to+0xe4/0x128", "__schedule+0x2b0/0x9a8", "schedule+0x60/0xf0",
             "schedule_preempt_disabled+0x28/0x48", "__mutex_lock.constprop.0+0x1a4/0x5c0",
             "mutex_lock+0x50/0x60", "rknpu_iommu_domain_get_and_switch+0x38/0x120",
             "rknpu_gem_object_destroy+0x48/0x1a0")  # fmt: skip
    lines = (
        f"INFO: task ork-run:{STUCK_PID} blocked for more than 120 seconds.",
        f"      Not tainted {kernel.profile.release} #1",
        '"echo 0 > /proc/sys/kernel/hung_task_timeout_secs" disables this message.',
        head,
        "Call trace:",
        *(f" {call}" for call in calls),
    )
    for line in lines:
        kernel.log.kernel(ERR, line)


def _nothing(kernel: RknpuKernel, value: str) -> None:
    """The fault is read where it matters: from the files, at a call, or at the next boot."""


def _clocked(kernel: RknpuKernel, value: str = "") -> None:
    kernel.set_clock()


_EFFECTS: dict[str, Effect] = {
    "wedge": Effect(_wedge, lambda kernel: kernel.scheduler.queues.unstall()),
    "hard-wedge": Effect(_hard_wedge),
    "reset-storm": Effect(_reset_storm, lambda kernel: kernel.calm.set()),
    "iova-leak": Effect(_iova_leak),
    "domain-switch-timeout": Effect(
        lambda kernel, value: kernel.domains.lose_reference(),
        lambda kernel: kernel.domains.find_reference(),
    ),
    "hot": Effect(_clocked, _clocked),
    "parked-governor": Effect(_clocked, _clocked),
    "busy-other-process": Effect(
        lambda kernel, value: kernel.foreign.start(kernel.clock.now_ns()),
        lambda kernel: kernel.foreign.stop(kernel.clock.now_ns()),
    ),
    "process-stuck-D": Effect(_stuck),
}
_NONE = Effect(_nothing)


def begin(kernel: RknpuKernel, name: str, value: str) -> None:
    """The fault is set already. The kernel's lock must not be held."""
    _EFFECTS.get(name, _NONE).begin(kernel, value)


def end(kernel: RknpuKernel, name: str) -> None:
    """The fault is forgotten already."""
    _EFFECTS.get(name, _NONE).end(kernel)
