"""A submitted run as its poller sees it: how far results have come, and what to do when they do not."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from orkbench_tui.driver import uapi
from orkbench_tui.driver.completion import Landing, ResultWatch, Watch
from orkbench_tui.driver.context import Context
from orkbench_tui.driver.drain import drain_of
from orkbench_tui.driver.matmul.linked import LinkedPrograms
from orkbench_tui.driver.recovery import MAX_ATTEMPTS, SPIN_S, Pacer
from orkbench_tui.driver.task_set import BoundTask, TaskRoom, TaskSet
from orkbench_tui.errors import UnhealthyError

__all__ = ["Entry", "PolledRun"]


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
        self._idle = False
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
        for bound in self.sets:
            bound.refresh()
        self.seed(self.entries)
        self._context.submitter.start_on(self._core, self.linked.job)
        self._began = self._moved = time.monotonic()

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

    def wait(self) -> None:
        """Until all tasks up to the end are complete.

        Raises:
            UnhealthyError: a result never came.
            OrkError: the device failed.
        """
        window = self._context.windows.of(sum(bound.cost for bound in self.sets))
        pacer = Pacer()
        at_once = True
        while (landed := self.look()) is not Landing.ALL:
            at_once = False
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
        self._context.submitter.start_on(self._core, self.linked.job_from(self.entries[task].first))
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
        if self._attempt == MAX_ATTEMPTS:
            counters.failed += 1
            raise UnhealthyError(
                f"a job of {self.linked.count} programs on core {self._core} never finished",
                why=f"task {self.done} of {self.end} ({entry.task.weight_name}) wrote no result in "
                f"{self._attempt + 1} submits with a reset between; all results are void",
                do="look at `ork board log`, then `ork board recover`",
            )
        self._attempt += 1
        context.reset()
        counters.resets += 1
        counters.resubmits += 1
        self.seed(self.entries[self.done : self.end])
        self._submit_from(self.done)

    def fetch(self) -> None:
        """Results of the complete tasks into their outputs."""
        for bound in self.sets:
            done = [entry.task for entry in self.entries[: self.done] if entry.owner is bound]
            if done:
                bound.fetch_results(done)

    def free(self) -> None:
        """Give the memory back; not while the job may still run."""
        self.linked.release()
        for bound in self.sets:
            bound.free()
        if self.room is not None:
            self.room.free()
