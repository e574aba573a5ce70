"""The driver's log lines about jobs, word for word as driver 0.9.8 prints them (prefix left out)."""

from __future__ import annotations

from orkbench_tui.sim.kernel.jobs import Job, Work

__all__ = ["aborted", "core_state", "gave_up", "invalid_status", "wait_expired"]


def _elapsed_us(job: Job, now_ns: int) -> int:
    return (now_ns - job.created_ns) // 1000


def wait_expired(job: Job, live_domain: int, count: int, goes_on: bool, now_ns: int) -> str:
    """A round of waiting is over; ``goes_on`` when the job has not reached the hardware yet."""
    since_commit = (now_ns - job.commit_ns) // 1000 if job.commit_ns else 0
    return (
        f"job: {job.hashed_pointer}, mask: {job.core_mask:#x}, job iommu domain id: {job.domain}, "
        f"dev iommu domain id: {live_domain}, wait_count: {count}, continue wait: {int(goes_on)}, "
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


def aborted(job: Job, code: int, now_ns: int) -> str:
    return f"job abort, flags: 0x0, ret: {code}, elapsed time: {_elapsed_us(job, now_ns)}us"


def invalid_status(work: Work) -> str:
    return (
        f"invalid irq status: {work.status:#x}, raw status: {work.raw_status:#x}, "
        f"require mask: {work.int_mask:#x}, task counter: {work.counter:#x}"
    )
