"""A submitted run as its poller sees it: how far results have come, and what to do when they do not."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from orkbench_tui.driver import uapi
from orkbench_tui.driver.completion import Landing, ResultWatch, Watch
from orkbench_tui.driver.context import Context
from orkbench_tui.driver.drain import drain_of
from orkbench_tui.driver.failure_recorder import naming
from orkbench_tui.driver.matmul.linked import LinkedPrograms
from orkbench_tui.driver.recovery import MAX_ATTEMPTS, SPIN_S, Pacer
from orkbench_tui.driver.submit import Submitted
from orkbench_tui.driver.task_set import BoundTask, TaskRoom, TaskSet
from orkbench_tui.errors import UnhealthyError

__all__ = ["Entry", "PhaseTimes", "PolledRun"]


@dataclass(slots=True)
class PhaseTimes:
    """Seconds of this machine's clock one run took on the host, by what it did.

    ``begin``: activations and patterns brought to the device, and the submit call. ``end``: waiting for
    results, with the device's time and what the caller does meanwhile, and bringing them to the caller.
    """

    refresh_s: float = 0.0
    seed_s: float = 0.0
    submit_s: float = 0.0
    poll_s: float = 0.0
    fetch_s: float = 0.0

    @property
    def begin_s(self) -> float:
        return self.refresh_s + self.seed_s + self.submit_s

    @property
    def end_s(self) -> float:
        return self.poll_s + self.fetch_s


@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    """A task in the run: programs ``first`` to ``last``."""

    owner: TaskSet
    task: BoundTask
    watch: ResultWatch
    first: int
    last: int


class PolledRun:
    """Linked programs on one core and the results they are to write, in order.

    ``done`` tasks are complete without a gap. The run ends with task ``limit - 1`` where that is set, and
    may have ended before task ``uncertain_from``, whose link was written too close to the end.
    """

    def __init__(self, context: Context, core: int, bound: TaskSet, reserve: int) -> None:
        self._context = context
        self._core = core
        with context.domains.use(bound.domain):
            self.linked = LinkedPrograms(
                context.memory, context.programs, bound.bodies, reserve=reserve, domain=bound.domain
            )
        largest_a, largest_c = bound.largest
        # Taken now: a running job is no time to allocate, which may switch domains.
        self.room = (
            TaskRoom(context, bound.domain, reserve * largest_a, reserve * largest_c, polled=True)
            if reserve
            else None
        )
        self._drain = drain_of(context, bound.format, bound.domain)
        self.format = bound.format
        self.sets: list[TaskSet] = []
        self.entries: list[Entry] = []
        self.done = 0
        self.limit: int | None = None
        self.uncertain_from: int | None = None
        self._attempt = 0
        self._submitted: Submitted | None = None
        self._failure_file: Path | None = None
        self._idle = False
        self._fetched = 0
        self.times = PhaseTimes()
        self._began = self._moved = 0.0
        self.add(bound, 0)

    def add(self, bound: TaskSet, first: int) -> list[Entry]:
        """Take tasks in whose programs start at index ``first``."""
        added = []
        for task in bound.tasks:
            watch = ResultWatch(task.plan, task.result)
            added.append(Entry(bound, task, watch, first, first + len(task.bodies) - 1))
            first += len(task.bodies)
        self.sets.append(bound)
        self.entries += added
        return added

    def seed(self, entries: Sequence[Entry]) -> None:
        """Write the pattern where the results will be."""
        for entry in entries:
            entry.watch.seed(self._attempt)
            # The whole result: no dirty line of it may be evicted over what the NPU writes.
            self._context.memory.sync(entry.task.result, uapi.SyncFlag.TO_DEVICE)

    def start(self) -> None:
        """Refresh the activations, write the patterns, and submit."""
        began = time.monotonic()
        for bound in self.sets:
            bound.refresh()
        refreshed = time.monotonic()
        self.seed(self.entries)
        seeded = time.monotonic()
        self._submitted = self._context.submitter.start_on(self._core, self.linked.job)
        self._began = self._moved = time.monotonic()
        self.times.refresh_s, self.times.seed_s = refreshed - began, seeded - refreshed
        self.times.submit_s = self._began - seeded

    @property
    def end(self) -> int:
        return len(self.entries) if self.limit is None else self.limit

    def look(self) -> Landing:
        """Move the frontier; what has come of the first task that is not complete."""
        while self.done < self.end:
            landed = self._landed(self.entries[self.done])
            settled = landed is Landing.PART and self._idle
            if landed is not Landing.ALL and not settled:
                return landed
            self.done += 1
            self._moved = time.monotonic()
        return Landing.ALL

    def _landed(self, entry: Entry) -> Landing:
        self._context.submitter.counters.polls += 1
        self._context.memory.sync(entry.watch.touched, uapi.SyncFlag.FROM_DEVICE)
        return entry.watch.landed()

    def wait(self, moved: Callable[[], None] = lambda: None) -> None:
        """Until all tasks up to the end are complete; ``moved`` is called when more of them are.

        Where a result counts only once the core is idle, that is at the end.

        Raises:
            UnhealthyError: a result never came.
            OrkError: the device failed.
        """
        began, fetched_s = time.monotonic(), self.times.fetch_s
        try:
            self._poll(lambda: None if self._watch.drain else moved())
        finally:
            self.times.poll_s += time.monotonic() - began - (self.times.fetch_s - fetched_s)
        moved()

    def _poll(self, moved: Callable[[], None]) -> None:
        window = self._context.windows.of(sum(bound.cost for bound in self.sets))
        pacer = Pacer()
        at_once = True
        while (landed := self.look()) is not Landing.ALL:
            at_once = False
            moved()
            still_s = time.monotonic() - self._moved
            if self.uncertain_from is not None and self.done >= self.uncertain_from:
                self._continue_tail()
            elif landed is Landing.PART and still_s > SPIN_S and self._watch.legal:
                # What is left of the pattern may be a result; once the core is idle it must be.
                self._drain_core()
            elif self._idle or still_s > window.seconds(self._attempt):
                self._missed()
            pacer.wait()
        if self._attempt:
            self._context.submitter.counters.recovered += 1
            self._say_recovered()
        elif not at_once:
            window.learn(time.monotonic() - self._began)
        if self.limit is not None or self._watch.drain:
            self._drain_core()
            # A task beyond a halt that came too late has run all the same.
            self.limit = None
            self.look()

    def _continue_tail(self) -> None:
        """The run may have ended before an append took hold: see what came, and submit the rest."""
        self.uncertain_from = None
        self._drain_core()
        if self.look() is not Landing.ALL:
            self._submit_from(self.done)

    def _drain_core(self) -> None:
        self._drain.run(self._core)
        self._idle = True

    def _submit_from(self, task: int) -> None:
        self._idle = False
        job = self.linked.job_from(self.entries[task].first)
        self._submitted = self._context.submitter.start_on(self._core, job)
        self._moved = time.monotonic()

    @property
    def _watch(self) -> Watch:
        return self.entries[0].watch.watch

    def _missed(self) -> None:
        """A window has passed without news, or the core is idle without a result: reset and resubmit."""
        context, counters = self._context, self._context.submitter.counters
        entry = self.entries[self.done]
        counters.drops += 1
        context.domains.mark_dirty(self.linked.domain, context.submitter.timeout_ms)
        if self._attempt == 0:
            # Before the reset, which is the end of what the first submit left behind.
            self._failure_file = context.failures.keep(
                f"a job of {self.linked.count} programs on core {self._core} wrote no result",
                f"task {self.done} of {self.end} ({entry.task.weight_name}): "
                + ("the core was idle without it" if self._idle else "its window passed"),
                [self._submitted] if self._submitted else [],
            )
        if self._attempt == MAX_ATTEMPTS:
            counters.failed += 1
            error = UnhealthyError(
                f"a job of {self.linked.count} programs on core {self._core} never finished",
                why=f"task {self.done} of {self.end} ({entry.task.weight_name}) wrote no result in "
                f"{self._attempt + 1} submits with a reset between; all results are void",
                do="look at `ork board log`, then `ork board recover`",
            )
            raise naming(error, self._failure_file)
        self._attempt += 1
        context.reset()
        counters.resets += 1
        counters.resubmits += 1
        self.seed(self.entries[self.done : self.end])
        self._submit_from(self.done)

    def _say_recovered(self) -> None:
        if self._failure_file is not None:
            self._context.say_once(
                f"a job on core {self._core} was lost and ran again; "
                f"`ork npu failures {self._failure_file.name}` shows what was submitted"
            )
            self._failure_file = None

    def fetch(self) -> range:
        """Results of the complete tasks not fetched before into their outputs; gives which these are."""
        began = time.monotonic()
        new = range(self._fetched, self.done)
        for bound in self.sets:
            done = [self.entries[index].task for index in new if self.entries[index].owner is bound]
            if done:
                bound.fetch_results(done)
        self._fetched = self.done
        self.times.fetch_s += time.monotonic() - began
        return new

    def free(self) -> None:
        """Give the memory back; not while the job may still run."""
        self.linked.release()
        for bound in self.sets:
            bound.free()
        if self.room is not None:
            self.room.free()
