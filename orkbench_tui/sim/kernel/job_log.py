"""The driver's log lines about jobs, word for word as driver 0.9.8 prints them (prefix left out)."""

from __future__ import annotations

from orkbench_tui.sim.identity import DriverVersion
from orkbench_tui.sim.kernel.jobs import Job, Work

__all__ = ["aborted", "core_state", "gave_up", "invalid_status", "timed_out", "wait_expired"]


def _elapsed_us(job: Job, now_ns: int) -> int:
    return (now_ns - job.created_ns) // 1000


def wait_expired(
    driver: DriverVersion, job: Job, live_domain: int, count: int, goes_on: bool, now_ns: int
) -> str:
    """A round of waiting is over; ``goes_on`` when the job has not reached the hardware yet. "" before 0.9.6."""
    if not driver.wait_line:
        return ""
    since_commit = (now_ns - job.commit_ns) // 1000 if job.commit_ns else 0
    ids = f"iommu domain id: {live_domain}"
    if driver.wait_line == "masks":
        ids = f"mask: {job.core_mask:#x}, job iommu domain id: {job.domain}, dev {ids}"
    return (
        f"job: {job.hashed_pointer}, {ids}, wait_count: {count}, continue wait: {int(goes_on)}, "
        f"commit elapse time: {since_commit}us, wait time: {_elapsed_us(job, now_ns)}us, "
        f"timeout: {job.timeout_ms * 1000}us"
    )


def gave_up(job: Job, now_ns: int) -> str:
    return (
        f"failed to wait job, task counter: {max(work.counter for work in job.work) & 0xFFF}, "
        f"flags: {int(job.flags):#x}, ret = 0, elapsed time: {_elapsed_us(job, now_ns)}us"
    )


def core_state(job: Job, work: Work, now_ns: int) -> str:
    return (
        f"\tcore {work.core} irq status: {work.status:#x}, raw status: {work.raw_status:#x}, "
        f"require mask: {work.int_mask:#x}, task counter: {work.counter:#x}, "
        f"elapsed time: {_elapsed_us(job, now_ns)}us"
    )


def timed_out(driver: DriverVersion, job: Job, now_ns: int) -> list[str]:
    """The abort's lines: a head and one for each core, or one for all of it in old drivers."""
    if not driver.one_timeout_line:
        return ["job timeout, flags: 0x0:", *(core_state(job, work, now_ns) for work in job.work)]
    return [
        f"job timeout, flags: 0x0, irq status: {work.status:#x}, raw status: {work.raw_status:#x}, "
        f"require mask: {work.int_mask:#x}, task counter: {work.counter:#x}, "
        f"elapsed time: {_elapsed_us(job, now_ns)}us"
        for work in job.work[:1]
    ]


def aborted(job: Job, code: int, now_ns: int) -> str:
    return f"job abort, flags: 0x0, ret: {code}, elapsed time: {_elapsed_us(job, now_ns)}us"


def invalid_status(work: Work) -> str:
    return (
        f"invalid irq status: {work.status:#x}, raw status: {work.raw_status:#x}, "
        f"require mask: {work.int_mask:#x}, task counter: {work.counter:#x}"
    )
