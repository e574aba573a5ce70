"""Job queues, one per core: dispatch, commit, completion interrupts, and the end of a job.

The state machine of the vendor driver with its log lines. All state is guarded by one condition; the cores
execute outside it.
"""

from __future__ import annotations

import ctypes
import errno
import threading

from orkbench_tui.driver.soc import Soc
from orkbench_tui.driver.uapi import Task
from orkbench_tui.sim import timing
from orkbench_tui.sim.chip.core import Executor, Run
from orkbench_tui.sim.chip.faults import DmaFault
from orkbench_tui.sim.clock import BoardClock
from orkbench_tui.sim.identity import DriverVersion
from orkbench_tui.sim.kernel import job_log
from orkbench_tui.sim.kernel.chip_cores import Chain, CoreThread
from orkbench_tui.sim.kernel.domains import Domains
from orkbench_tui.sim.kernel.jobs import DISPATCHED_MASKS, Job, Work, fuzz, program_amount
from orkbench_tui.sim.kernel.kernel_log import ERR, KernelLog
from orkbench_tui.sim.kernel.load_meter import WINDOW_NS, LoadMeter
from orkbench_tui.sim.kernel.page_faults import log_page_fault

__all__ = ["CoreQueues"]

TASK_BYTES = ctypes.sizeof(Task)
LOAD_TIMER_STARTED_NS = 7_657_200_000


class CoreQueues:
    """``condition`` guards everything here and in ``domains``. ``wedged`` says why only a power cycle helps."""

    def __init__(
        self,
        clock: BoardClock,
        log: KernelLog,
        condition: threading.Condition,
        domains: Domains,
        execute: Executor,
        soc: Soc,
        driver: DriverVersion,
    ) -> None:
        self.condition = condition
        self._driver = driver
        self._clock = clock
        self._log = log
        self._domains = domains
        self._soc = soc
        self._stalled: set[int] = set()
        self.cores = [
            CoreThread(
                index,
                clock,
                LoadMeter(LOAD_TIMER_STARTED_NS + WINDOW_NS),
                self._interrupt,
                execute,
                amount_scale=soc.amount_scale,
            )
            for index in range(soc.cores)
        ]
        self.paused = False
        """During a reset nothing is dispatched."""
        self.wedged = ""
        self.jobs_done = 0
        self.jobs_failed = 0
        self.predicted_ns = 0

    # -- faults -----------------------------------------------------------------------------------

    def stall(self, cores: set[int]) -> None:
        """From now on these cores complete nothing, and count as busy, until ``unstall``."""
        with self.condition:
            self._stalled |= cores
            for index in cores:
                self.cores[index].load.start(self._clock.now_ns())

    @property
    def stalls(self) -> bool:
        """Whether a core is at work that never ends."""
        return bool(self._stalled)

    def unstall(self) -> None:
        with self.condition:
            for index in self._stalled:
                self.cores[index].load.stop(self._clock.now_ns())
            self._stalled.clear()

    # -- queueing ---------------------------------------------------------------------------------

    def least_loaded_core(self) -> int:
        waiting = [
            sum(work.number for job in (*core.todo, *filter(None, [core.owner])) for work in job.work)
            for core in self.cores
        ]
        return waiting.index(min(waiting))

    def enqueue(self, job: Job) -> None:
        """Hold the job's domain and queue it on its cores.

        A blocking job whose domain cannot be made live is never committed; its waiter learns so.

        Raises:
            OSError: as a domain switch does, for a NONBLOCK job.
        """
        try:
            self._domains.hold(job.domain, job)
        except OSError:
            if job.nonblock:
                raise
            job.lost = True
        job.file.jobs += 1
        job.tasks.references += 1
        if job.lost:
            return
        if job.core_mask not in DISPATCHED_MASKS:
            self._log.driver(ERR, f"Unknown core mask: {job.core_mask}")
            job.hung = True
            return
        for work in job.work:
            self.cores[work.core].todo.append(job)
            job.in_queue.add(work.core)
        for work in job.work:
            self._dispatch(self.cores[work.core])

    def dispatch_all(self) -> None:
        for core in self.cores:
            self._dispatch(core)

    def _dispatch(self, core: CoreThread) -> None:
        if core.owner is not None or self.paused or not core.todo:
            return
        job = core.todo.popleft()
        job.in_queue.discard(core.index)
        core.owner = job
        job.owned += 1
        if job.owned == len(job.work):
            job.commit_ns = self._clock.now_ns()
            for work in job.work:
                self.cores[work.core].load.start(job.commit_ns)
            for work in job.work:
                self._commit(job, work)

    def _commit(self, job: Job, work: Work) -> None:
        """Hand the next chunk of a core's tasks to the hardware."""
        count = min(work.number - work.committed, self._soc.max_tasks_per_commit)
        first = work.first + work.committed
        if self.wedged or work.core in self._stalled:
            self._hang(job)
            return
        if len(job.work) > 1 and not self._driver.multi_core:
            self._log.chip(f"driver {self._driver.name} completes no job of several cores")
            self._hang(job)
            return
        if count == 0 and len(job.work) == self._soc.cores > 1:
            self.wedged = f"core mask 0x7 committed no tasks on core {work.core}"
            self._log.chip(f"{self.wedged}; the board is wedged until a power cycle (`ork sim power-cycle`)")
        if count == 0 or (first + count) * TASK_BYTES > job.tasks.size:
            self._log.chip(f"core {work.core}: tasks {first}..{first + count} are not in the task array")
            self._hang(job)
            return
        head, tail = self._task(job, first), self._task(job, first + count - 1)
        work.int_mask = tail.int_mask
        self.cores[work.core].commit(
            Chain(
                job=job,
                work=work,
                space=self._domains.seen_by_chain(job.domain, count),
                address=head.regcmd_addr & 0xFFFF_FFFF,
                amount=program_amount(head.regcfg_amount, self._soc.amount_scale),
                count=count,
                earliest_ns=job.created_ns + timing.SUBMIT_FLOOR_NS,
            )
        )

    @staticmethod
    def _task(job: Job, index: int) -> Task:
        at = index * TASK_BYTES
        return Task.from_buffer_copy(job.tasks.cpu[at : at + TASK_BYTES].tobytes())

    # -- interrupts -------------------------------------------------------------------------------

    def _interrupt(self, core: CoreThread, chain: Chain, run: Run) -> None:
        """A core has stopped; called from its thread."""
        job, work = chain.job, chain.work
        with self.condition:
            if core.owner is not job or job.hung:
                return
            work.counter = run.programs
            work.raw_status = run.raw_status
            work.predicted_ns += run.predicted_ns
            if run.fault is not None:
                self._log_fault(core, chain, run)
                self._hang(job)
            elif run.forward_link and work.committed + chain.count == work.number:
                self._log.chip(
                    f"core {core.index}: the last of {chain.count} programs links on to another one"
                )
                job.error = errno.EINVAL
                self.retire(job)
            else:
                self._compare(core, chain, run)

    def _log_fault(self, core: CoreThread, chain: Chain, run: Run) -> None:
        if isinstance(run.fault, DmaFault):
            log_page_fault(self._log, run.fault.iova, run.fault.write, chain.space)
        where = f"core {core.index}, program {run.programs} at {run.at_program:#x}"
        self._log.chip(f"{where}: {run.fault}")

    def _compare(self, core: CoreThread, chain: Chain, run: Run) -> None:
        job, work = chain.job, chain.work
        work.status = run.raw_status & work.int_mask
        if work.status == 0:
            self._hang(job)
            return
        core.interrupts += 1
        if fuzz(work.status) != work.int_mask:
            self._log.driver(ERR, job_log.invalid_status(work))
            self._hang(job)
            return
        work.committed += chain.count
        if work.committed < work.number:
            self._commit(job, work)
            return
        work.finished = True
        core.jobs_done += 1
        core.hw_ns += work.predicted_ns
        last = (work.first + work.number - 1) * TASK_BYTES + Task.int_status.offset
        job.tasks.cpu[last : last + 4] = list(work.status.to_bytes(4, "little"))
        core.load.stop(self._clock.now_ns())
        core.owner = None
        if all(part.finished for part in job.work):
            self.jobs_done += 1
            self.predicted_ns += job.predicted_ns
            self.retire(job)
        self._dispatch(core)

    def _hang(self, job: Job) -> None:
        job.hung = True
        self.condition.notify_all()

    # -- the end ----------------------------------------------------------------------------------

    def live_jobs(self) -> list[Job]:
        jobs: dict[int, Job] = {}
        for core in self.cores:
            for job in (*core.todo, *filter(None, [core.owner])):
                jobs[job.number] = job
        return list(jobs.values())

    def retire(self, job: Job) -> None:
        """The job is over, well or badly: free its cores, its domain and its task buffer."""
        if job.done:
            return
        job.done = True
        if job.error or not all(work.finished for work in job.work):
            self.jobs_failed += 1
        for core in self.cores:
            if core.index in job.in_queue:
                core.todo.remove(job)
            if core.owner is job:
                core.owner = None
                if core.index not in self._stalled:
                    core.load.stop(self._clock.now_ns())
        job.in_queue.clear()
        if not job.lost:
            self._domains.drop(job)
        job.file.jobs -= 1
        job.tasks.references -= 1
        self.condition.notify_all()
        self.dispatch_all()

    def abandon(self) -> None:
        """The board goes down: whoever waits for a job learns that it is over, and nobody keeps the others."""
        with self.condition:
            self.paused = True
            for job in self.live_jobs():
                job.reset_hit = True
                if job.nonblock:
                    self.retire(job)
            self.condition.notify_all()

    def resume(self) -> None:
        """After ``abandon``: the driver has its device again, the cores their power."""
        with self.condition:
            for core in self.cores:
                core.reset()
            self._stalled.clear()
            self.paused = False

    def stop(self) -> None:
        for core in self.cores:
            core.stop()
