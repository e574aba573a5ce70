"""The soft reset: reset lines pulsed, registers forgotten, everybody's waits ended; and the reaping of old jobs."""

from __future__ import annotations

import errno
from collections.abc import Callable

from orkbench_tui.sim import timing
from orkbench_tui.sim.clock import BoardClock
from orkbench_tui.sim.identity import DriverVersion
from orkbench_tui.sim.kernel.core_queues import CoreQueues
from orkbench_tui.sim.kernel.jobs import Job
from orkbench_tui.sim.kernel.kernel_log import INFO, WARN, KernelLog

__all__ = ["HALF_RESET_NS", "SoftReset"]

HALF_RESET_NS = 100_000_000
"""What the driver sleeps before it pulses the lines, and before it gives a timed-out job up."""

_GRACE_S = 5.0
"""Of this machine's time, for a core to report what a board's would within ``HALF_RESET_NS``."""


class SoftReset:
    """``bypassed`` is the debugfs switch; ``count`` is since boot."""

    def __init__(
        self,
        queues: CoreQueues,
        clock: BoardClock,
        log: KernelLog,
        driver: DriverVersion,
        reset_lines: int,
        after: Callable[[], None],
    ) -> None:
        self._queues = queues
        self._clock = clock
        self._log = log
        self._line = f"soft reset, num: {reset_lines}" if driver.counts_reset_lines else "soft reset"
        self._after = after
        self.bypassed = False
        self.count = 0

    def run(self, keep: Job | None = None) -> None:
        """Pulse the reset lines: every core forgets its registers, every waiter's job fails.

        Queued and stuck NONBLOCK jobs stay where they are, as on the board; ``keep`` is the job whose
        owner asked, which that owner retires itself. A second caller during a reset is told it worked.
        """
        queues = self._queues
        if self.bypassed:
            self._log.driver(WARN, "bypass soft reset")
            return
        with queues.condition:
            if queues.paused:
                return
            queues.paused = True
        self._clock.sit_out(HALF_RESET_NS)
        self._let_cores_report()
        with queues.condition:
            self._log.driver(INFO, self._line)
            for job in queues.live_jobs():
                if job.commit_ns:
                    job.hung = True
                if not job.nonblock and job is not keep:
                    job.reset_hit = True
            for core in queues.cores:
                core.reset()
            queues.condition.notify_all()
        self._clock.sit_out(timing.RESET_NS - HALF_RESET_NS)
        with queues.condition:
            queues.paused = False
            self.count += 1
            queues.unstall()
            queues.dispatch_all()
        self._after()

    def _let_cores_report(self, mask: int = -1) -> None:
        """Pace ``fast`` skips the time in which a NONBLOCK job at work ends on a board; here it gets it.

        Its results may have been seen in memory before the core's thread could say that it is over, and
        how long that takes depends on what else this machine does.
        """
        if self._clock.pace != "fast":
            return
        queues = self._queues

        def all_told() -> bool:
            return not any(
                mask >> core.index & 1
                and core.owner is not None
                and core.owner.nonblock
                and core.owner.at_work
                for core in queues.cores
            )

        with queues.condition:
            queues.condition.wait_for(all_told, _GRACE_S)

    def reap(self, mask: int) -> None:
        """What a NONBLOCK submit does first: a job older than its time-out is reset away, with the
        queue behind it. The age is in microseconds and the time-out in milliseconds, as in 0.9.8.
        """
        queues = self._queues
        self._let_cores_report(mask)
        with queues.condition:
            now = self._clock.now_ns()
            old = [
                core.owner
                for core in queues.cores
                if mask >> core.index & 1
                and core.owner is not None
                and core.owner.commit_ns
                and (now - core.owner.commit_ns) // 1000 > core.owner.timeout_ms
            ]
        if not old:
            return
        self.run()
        with queues.condition:
            for job in queues.live_jobs():
                if job.nonblock and (
                    job in old or job.in_queue & {work.core for o in old for work in o.work}
                ):
                    job.error = errno.ETIMEDOUT
                    queues.retire(job)
