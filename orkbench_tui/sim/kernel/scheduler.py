"""The driver's scheduler as one piece: queues, waits and resets, for the rest of the simulated kernel."""

from __future__ import annotations

import threading
from collections.abc import Callable

from orkbench_tui.driver.soc import RK3588, Soc
from orkbench_tui.sim.chip.conv_native import execute_native
from orkbench_tui.sim.chip.core import Executor
from orkbench_tui.sim.clock import BoardClock
from orkbench_tui.sim.identity import NEWEST, DriverVersion
from orkbench_tui.sim.kernel.chip_cores import CoreThread
from orkbench_tui.sim.kernel.core_queues import CoreQueues
from orkbench_tui.sim.kernel.domains import Domains
from orkbench_tui.sim.kernel.job_wait import JobWait
from orkbench_tui.sim.kernel.jobs import Job
from orkbench_tui.sim.kernel.kernel_log import KernelLog
from orkbench_tui.sim.kernel.soft_reset import SoftReset

__all__ = ["Scheduler"]


class Scheduler:
    """``queues`` hold the state; ``reset`` is the soft reset."""

    def __init__(
        self,
        clock: BoardClock,
        log: KernelLog,
        condition: threading.Condition,
        domains: Domains,
        execute: Executor = execute_native,
        soc: Soc = RK3588,
        driver: DriverVersion = NEWEST,
        after_reset: Callable[[], None] = lambda: None,
    ) -> None:
        self.queues = CoreQueues(clock, log, condition, domains, execute, soc, driver)
        self.reset = SoftReset(self.queues, clock, log, driver, soc.reset_lines, after_reset)
        self._wait = JobWait(self.queues, self.reset, domains, clock, log, driver)

    @property
    def cores(self) -> list[CoreThread]:
        return self.queues.cores

    @property
    def wedged(self) -> str:
        """Why only a power cycle helps; "" while it does not."""
        return self.queues.wedged

    @property
    def jobs_done(self) -> int:
        return self.queues.jobs_done

    @property
    def jobs_failed(self) -> int:
        return self.queues.jobs_failed

    @property
    def resets(self) -> int:
        """Soft resets since boot."""
        return self.reset.count

    def enqueue(self, job: Job) -> None:
        """As ``CoreQueues.enqueue``."""
        self.queues.enqueue(job)

    def wait(self, job: Job) -> None:
        """As ``JobWait.until_over``."""
        self._wait.until_over(job)

    def soft_reset(self) -> None:
        """As ``SoftReset.run``, for somebody without a job."""
        self.reset.run()
