"""Waiting for a blocking job: up to three rounds of its time-out, then the abort and the reset."""

from __future__ import annotations

import errno

from orkbench_tui.sim.clock import BoardClock
from orkbench_tui.sim.identity import DriverVersion
from orkbench_tui.sim.kernel import job_log
from orkbench_tui.sim.kernel.core_queues import CoreQueues
from orkbench_tui.sim.kernel.domains import Domains
from orkbench_tui.sim.kernel.jobs import DISPATCHED_MASKS, Job
from orkbench_tui.sim.kernel.kernel_log import ERR, KernelLog
from orkbench_tui.sim.kernel.soft_reset import HALF_RESET_NS, SoftReset

__all__ = ["JobWait"]

ROUNDS = 3

_PATIENCE_S = 60.0
"""Pace ``fast`` times out what hangs, not what this machine is slow to compute; this long it may take."""


class JobWait:
    def __init__(
        self,
        queues: CoreQueues,
        reset: SoftReset,
        domains: Domains,
        clock: BoardClock,
        log: KernelLog,
        driver: DriverVersion,
    ) -> None:
        self._queues = queues
        self._reset = reset
        self._domains = domains
        self._clock = clock
        self._log = log
        self._driver = driver

    def until_over(self, job: Job) -> None:
        """Block until a job is over; call without the lock.

        Raises:
            OSError: ETIMEDOUT when it was committed and did not complete, EINVAL when it never ran
                or a reset from elsewhere ended it.
        """
        for round_ in range(1, ROUNDS + 1):
            if self._over_within_round(job):
                return
            with self._queues.condition:
                committed = job.commit_ns != 0
                if round_ < ROUNDS:
                    self._log_round(job, round_, committed)
            if committed:
                self._time_out(job)
                raise OSError(errno.ETIMEDOUT, "job timed out")
        self._log.driver(ERR, "job commit failed")
        self._clock.sit_out(HALF_RESET_NS)
        with self._queues.condition:
            self._log_abort(job, -errno.EINVAL)
            self._queues.retire(job)
        raise OSError(errno.EINVAL, "job was never committed")

    def _over_within_round(self, job: Job) -> bool:
        """Wait one time-out of the board's clock; True when the job is done. Raises OSError when it failed."""
        began = self._clock.now_ns()
        condition = self._queues.condition
        with condition:
            if not (job.lost or job.core_mask not in DISPATCHED_MASKS):
                patience = job.timeout_ms / 1000
                if self._clock.pace == "fast":
                    patience = max(patience, _PATIENCE_S)
                condition.wait_for(lambda: job.done or job.reset_hit or self._end_is_known(job), patience)
            if job.done:
                if job.error:
                    self._log_abort(job, -job.error)
                    raise OSError(job.error, "job aborted")
                return True
            if job.reset_hit:
                self._log_abort(job, -errno.EINVAL)
                self._queues.retire(job)
                raise OSError(errno.EINVAL, "a reset ended the job")
        self._clock.sit_out(job.timeout_ms * 1_000_000 - (self._clock.now_ns() - began))
        return False

    def _end_is_known(self, job: Job) -> bool:
        """Pace ``fast`` moves the clock instead of sitting through a wait whose end is known."""
        return self._clock.pace == "fast" and (job.hung or self._starved(job, set()))

    def _starved(self, job: Job, seen: set[int]) -> bool:
        """Whether a core this job needs is kept by one that hangs and that nobody waits for."""
        seen.add(job.number)
        owners = [self._queues.cores[index].owner for index in job.in_queue]
        return any(
            owner.nonblock and (owner.hung or self._starved(owner, seen))
            for owner in owners
            if owner is not None and owner.number not in seen
        )

    def _log_round(self, job: Job, round_: int, committed: bool) -> None:
        line = job_log.wait_expired(
            self._driver, job, self._domains.live, round_, not committed, self._clock.now_ns()
        )
        if line:
            self._log.driver(ERR, line)

    def _log_abort(self, job: Job, code: int) -> None:
        self._log.driver(ERR, job_log.aborted(job, code, self._clock.now_ns()))

    def _time_out(self, job: Job) -> None:
        self._log.driver(ERR, job_log.gave_up(job, self._clock.now_ns()))
        self._clock.sit_out(HALF_RESET_NS)
        for line in job_log.timed_out(self._driver, job, self._clock.now_ns()):
            self._log.driver(ERR, line)
        with self._queues.condition:
            job.hung = True
        self._reset.run(keep=job)
        with self._queues.condition:
            self._queues.retire(job)
