"""RKNPU_SUBMIT: from the structure to a queued job, and back to the structure."""

from __future__ import annotations

import errno
import itertools
from typing import TYPE_CHECKING

from orkbench_tui.driver.soc import Soc
from orkbench_tui.driver.uapi import JobFlag, MemFlag, Submit
from orkbench_tui.sim.kernel.jobs import Job, Work, cores_of, subcore_slot
from orkbench_tui.sim.kernel.kernel_log import ERR
from orkbench_tui.sim.kernel.open_file import OpenFile

if TYPE_CHECKING:
    from orkbench_tui.sim.kernel.rknpu import RknpuKernel

__all__ = ["run_submit"]

_NUMBERS = itertools.count(1)


def run_submit(kernel: RknpuKernel, file: OpenFile, request: Submit) -> None:
    """Run a job; blocks unless NONBLOCK is set.

    Raises:
        OSError: EINVAL, ETIMEDOUT (see ``Scheduler.wait``), EFAULT for a task array the kernel has
            no mapping of.
    """
    log, scheduler = kernel.log, kernel.scheduler
    if request.task_number == 0:
        log.driver(ERR, "invalid rknpu task number!")
        raise OSError(errno.EINVAL, "task_number")
    if request.core_mask > kernel.profile.soc.core_mask:
        log.driver(ERR, f"invalid rknpu core mask: {request.core_mask:#x}")
        raise OSError(errno.EINVAL, "core_mask")
    flags = JobFlag(request.flags)
    if flags & (JobFlag.FENCE_IN | JobFlag.FENCE_OUT):
        log.driver(ERR, "failed to use rknpu fence, please enable rknpu fence config!")
        raise OSError(errno.EINVAL, "fence")
    if not flags & JobFlag.PC:
        raise OSError(errno.EINVAL, "flags without PC")
    if flags & JobFlag.NONBLOCK:
        scheduler.reset.reap(request.core_mask)
    with kernel.condition:
        tasks = kernel.memory.find(request.task_obj_addr)
        if not tasks.flags & MemFlag.KERNEL_MAPPING:
            log.chip("the task array has no kernel mapping; a board's kernel would crash here")
            raise OSError(errno.EFAULT, "task array without KERNEL_MAPPING")
        if request.core_mask == 0:
            request.core_mask = 1 << scheduler.queues.least_loaded_core()
        job = Job(
            number=next(_NUMBERS),
            file=file,
            flags=flags,
            timeout_ms=request.timeout,
            core_mask=request.core_mask,
            domain=request.iommu_domain_id if kernel.driver.domains else 0,
            tasks=tasks,
            work=_work(request, kernel.profile.soc),
            created_ns=kernel.clock.now_ns(),
        )
        scheduler.enqueue(job)
    request.task_counter = 0
    if kernel.driver.reports_time:
        request.hw_elapse_time = 0
    if job.nonblock:
        return
    try:
        scheduler.wait(job)
    except OSError as error:
        if error.errno == errno.ETIMEDOUT:
            request.task_counter = max(work.counter for work in job.work) & 0xFFF
        raise
    request.task_counter = request.task_number
    if kernel.driver.reports_time:
        request.hw_elapse_time = job.predicted_ns


def _work(request: Submit, soc: Soc) -> tuple[Work, ...]:
    """Each core's range; a chip of one core takes it from the structure's own fields."""
    if soc.cores == 1:
        return (Work(0, request.task_start, request.task_number),)
    parts = []
    for core in cores_of(request.core_mask):
        entry = request.subcore_task[subcore_slot(request.core_mask, core)]
        parts.append(Work(core, entry.task_start, entry.task_number))
    return tuple(parts)
