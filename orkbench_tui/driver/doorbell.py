"""A chain that is submitted without waiting, watched through memory, and ended early or made longer.

The kernel tells nobody how such a job ends, and about one in some thousands is never started. So the
result itself is the bell: a pattern is written where it will be, and looked at until it is gone. A
result that does not come within its window is recovered by a reset and a new submit, six times at
most; one that never comes raises, it is never passed off as a result.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import TracebackType

import numpy as np

from orkbench_tui.driver import uapi
from orkbench_tui.driver.completion import Landing, ResultWatch
from orkbench_tui.driver.context import Context
from orkbench_tui.driver.drain import drain_of
from orkbench_tui.driver.failures import LifetimeError, OperandError
from orkbench_tui.driver.matmul.formats import MatmulFormat
from orkbench_tui.driver.matmul.linked import LinkedPrograms
from orkbench_tui.driver.recovery import MAX_ATTEMPTS, DroppedJob, Pacer
from orkbench_tui.driver.run_paths import PathMode, RunPath, path_mode
from orkbench_tui.driver.submit import core_mask_for
from orkbench_tui.driver.task_rules import ChainTask
from orkbench_tui.driver.task_set import BoundTask, TaskSet
from orkbench_tui.errors import OrkError, UnhealthyError

__all__ = ["HEADROOM", "MAX_ROWS", "Doorbell", "DoorbellState"]

MAX_ROWS = 64
HEADROOM = 2
"""Tasks that must still be unfinished for a link behind them to be changed in time."""


class DoorbellState(StrEnum):
    IDLE = "idle"
    BUILT = "built"
    SUBMITTED = "submitted"
    HALTED = "halted"
    DRAINED = "drained"
    FREED = "freed"


_RUNNING = (DoorbellState.SUBMITTED, DoorbellState.HALTED)


@dataclass(frozen=True, slots=True, eq=False)
class _Entry:
    """A task in the run: programs ``first`` to ``last``."""

    owner: TaskSet
    task: BoundTask
    watch: ResultWatch
    first: int
    last: int


class Doorbell:
    """IDLE -> ``build`` -> BUILT -> ``begin`` -> SUBMITTED -> (``halt`` -> HALTED) -> ``end`` -> DRAINED
    -> ``close`` -> FREED; a call in another state raises LifetimeError and changes nothing.

    One at a time per core. ``activations[i]`` is to be filled before ``begin``; ``outputs[i]`` is valid
    after ``end`` for every i below what it returned. In ``with``, a run still going is ended first.
    """

    def __init__(self, context: Context, *, core: int = 0) -> None:
        core_mask_for(core, context.soc)
        self._context = context
        self.core = core
        self.state = DoorbellState.IDLE
        self._sets: list[TaskSet] = []
        self._entries: list[_Entry] = []
        self._done = 0
        self._limit: int | None = None
        self._uncertain_from: int | None = None
        self._void = False
        self._attempt = 0

    def _require(self, call: str, *states: DoorbellState) -> None:
        if self.state not in states:
            raise LifetimeError(
                f"doorbell.{call}",
                why=f"it is {self.state}; allowed when {' or '.join(states)}",
            )

    def build(self, tasks: Sequence[ChainTask], *, reserve: int = 0) -> None:
        """Bind tasks of up to 64 rows to memory; ``reserve`` programs may be appended later.

        Raises:
            OperandError, RefusedError: tasks that may not share a submit, too many rows, a bad reserve.
            LifetimeError: wrong state, or a weight was freed.
        """
        self._require("build", DoorbellState.IDLE)
        if reserve < 0:
            raise OperandError("doorbell", why=f"reserve {reserve}; at least 0")
        _require_rows(tasks)
        bound = TaskSet(self._context, tasks, polled=True, spare_steps=reserve)
        self._linked = LinkedPrograms(
            self._context.memory,
            self._context.programs,
            bound.bodies,
            reserve=reserve,
            domain=bound.domain,
        )
        self._drain = drain_of(self._context, bound.format)
        self._path: PathMode = path_mode(RunPath.DOORBELL, bound.format)
        self._add(bound, 0)
        self.state = DoorbellState.BUILT

    def _add(self, bound: TaskSet, first: int) -> None:
        self._sets.append(bound)
        for task in bound.tasks:
            watch = ResultWatch(task.plan, task.result)
            self._entries.append(_Entry(bound, task, watch, first, first + len(task.bodies) - 1))
            first += len(task.bodies)

    @property
    def format(self) -> MatmulFormat:
        """Raises LifetimeError before ``build``."""
        self._require("format", *list(DoorbellState)[1:])
        return self._sets[0].format

    @property
    def activations(self) -> tuple[np.ndarray, ...]:
        return tuple(entry.task.activation.array for entry in self._entries)

    @property
    def outputs(self) -> tuple[np.ndarray, ...]:
        return tuple(entry.task.output for entry in self._entries)

    def begin(self) -> None:
        """Refresh the activations, write the patterns, and submit.

        Raises:
            LifetimeError: wrong state, something was freed, the core has another doorbell running, or
                a doorbell of another mode runs.
            OperandError: numbers the format does not take.
            OrkError: the kernel did not take the job; the state is still BUILT.
        """
        self._require("begin", DoorbellState.BUILT)
        context = self._context
        if self.core in context.unattended:
            raise LifetimeError(
                "doorbell.begin", why=f"core {self.core} has a doorbell running", do="end that one first"
            )
        for bound in self._sets:
            bound.require_ready("doorbell.begin")
        context.gate.enter(self._path, unattended=True)
        try:
            self._prepare(self._sets, self._entries)
            context.submitter.start_on(self.core, self._linked.job)
        except BaseException:
            context.gate.leave(self._path, failed=True, unattended=True)
            raise
        context.unattended[self.core] = self
        self._began = self._moved = time.monotonic()
        self.state = DoorbellState.SUBMITTED

    def _prepare(self, sets: Sequence[TaskSet], entries: Sequence[_Entry]) -> None:
        for bound in sets:
            bound.refresh()
        self._seed(entries)

    def _seed(self, entries: Sequence[_Entry]) -> None:
        for entry in entries:
            entry.watch.seed(self._attempt)
            # The whole result: no dirty line of it may be evicted over what the NPU writes.
            self._context.memory.sync(entry.task.result, uapi.SyncFlag.TO_DEVICE)

    def progress(self) -> int:
        """How many tasks are complete without a gap, counted from the first.

        Raises:
            LifetimeError: nothing was submitted.
        """
        self._require("progress", *_RUNNING, DoorbellState.DRAINED)
        if self.state in _RUNNING:
            self._look()
        return self._done

    def _look(self) -> Landing:
        """Move the frontier; what has come of the first task that is not complete."""
        while self._done < self._end:
            landed = self._landed(self._entries[self._done])
            if landed is not Landing.ALL:
                return landed
            self._done += 1
            self._moved = time.monotonic()
        return Landing.ALL

    def _landed(self, entry: _Entry) -> Landing:
        self._context.submitter.counters.polls += 1
        self._context.memory.sync(entry.watch.touched, uapi.SyncFlag.FROM_DEVICE)
        return entry.watch.landed()

    @property
    def _end(self) -> int:
        return len(self._entries) if self._limit is None else self._limit

    def halt(self, at: int) -> bool:
        """End the run after task ``at``, before its last two tasks are reached.

        Tasks up to ``at`` finish. Returns False, and changes nothing, when task ``at`` is running or over:
        its link has been fetched. A task that starts within this very call may still lead on; ``end``
        then counts what came.

        Raises:
            OperandError: ``at`` is not below the last task but one.
            LifetimeError: wrong state.
        """
        self._require("halt", DoorbellState.SUBMITTED)
        last = len(self._entries) - 1
        if not 0 <= at < last - 1:
            raise OperandError(
                "doorbell.halt", why=f"at = {at} of {last + 1} tasks; allowed: 0 to {last - 2}"
            )
        if self.progress() >= at:
            return False
        self._linked.end_after(self._entries[at].last)
        self._limit = at + 1
        self.state = DoorbellState.HALTED
        return True

    def append(self, task: ChainTask) -> bool:
        """Add a task to the running job; its activation must be filled already (``task.a``).

        Returns False, and changes nothing, when fewer than two tasks are unfinished: too late.

        Raises:
            OperandError, RefusedError: a task that may not join, or no reserved programs left for it.
            LifetimeError: wrong state.
        """
        self._require("append", DoorbellState.SUBMITTED)
        if task.a is None:
            raise OperandError("doorbell.append", why="the task has no activation; it starts at once")
        _require_rows([task])
        if len(self._entries) - self.progress() < HEADROOM:
            return False
        bound = TaskSet(self._context, [task], polled=True)
        try:
            self._require_fits(bound)
            bound.require_ready("doorbell.append")
        except OrkError:
            bound.free()
            raise
        before = self._linked.count
        first = self._linked.extend(bound.bodies)
        known = len(self._entries)
        self._add(bound, first)
        self._prepare([bound], self._entries[known:])
        self._linked.join(before - 1)
        if self._uncertain_from is None and known - self.progress() < HEADROOM:
            self._uncertain_from = known
        return True

    def _require_fits(self, bound: TaskSet) -> None:
        free = self._linked.capacity - self._linked.count
        if len(bound.bodies) > free:
            raise OperandError(
                "doorbell.append",
                why=f"{len(bound.bodies)} programs, {free} of the reserve left",
                do="reserve more in build",
            )
        mine = self._sets[0]
        if bound.format is not mine.format or bound.domain != mine.domain:
            raise OperandError(
                "doorbell.append",
                why=f"a task of {bound.format.name} in domain {bound.domain} cannot join a run of "
                f"{mine.format.name} in domain {mine.domain}",
            )

    def end(self) -> int:
        """Wait for the run and bring the results to ``outputs``; returns how many tasks are complete.

        Raises:
            UnhealthyError: a result never came, after six resets and resubmits; the outputs are void.
            OrkError: the device failed or is gone.
            LifetimeError: wrong state.
        """
        self._require("end", *_RUNNING)
        failed = True
        try:
            self._wait()
            for bound in self._sets:
                done = [entry.task for entry in self._entries[: self._done] if entry.owner is bound]
                if done:
                    bound.fetch_results(done)
            failed = False
        finally:
            self._void = failed
            self.state = DoorbellState.DRAINED
            del self._context.unattended[self.core]
            self._context.gate.leave(self._path, failed=failed, unattended=True)
        self._context.after_run()
        return self._done

    def _wait(self) -> None:
        window = self._context.windows.of(sum(bound.cost for bound in self._sets))
        pacer = Pacer()
        at_once = True
        while (landed := self._look()) is not Landing.ALL:
            at_once = False
            if self._tail_may_be_cut():
                self._continue_tail()
            elif time.monotonic() - self._moved > window.seconds(self._attempt):
                self._missed(landed)
            pacer.wait()
        if self._attempt:
            self._context.submitter.counters.recovered += 1
        elif not at_once:
            window.learn(time.monotonic() - self._began)
        if self.state is DoorbellState.HALTED or self._entries[0].watch.watch.drain:
            self._drain.run(self.core)
            self._count_beyond_halt()

    def _tail_may_be_cut(self) -> bool:
        return self._uncertain_from is not None and self._done >= self._uncertain_from

    def _continue_tail(self) -> None:
        """The run may have ended before an append took hold: see what came, and submit the rest."""
        self._uncertain_from = None
        self._drain.run(self.core)
        if self._look() is not Landing.ALL:
            self._moved = time.monotonic()
            self._context.submitter.start_on(
                self.core, self._linked.job_from(self._entries[self._done].first)
            )

    def _count_beyond_halt(self) -> None:
        self._limit = None
        self._look()

    def _missed(self, landed: Landing) -> None:
        """A window has passed without news: settle a pattern that is a result, else reset and resubmit."""
        context, counters = self._context, self._context.submitter.counters
        entry = self._entries[self._done]
        if entry.watch.watch.legal and landed is Landing.PART:
            self._drain.run(self.core)
            if self._landed(entry) is not Landing.NONE:
                self._done += 1
                self._moved = time.monotonic()
                return
        counters.drops += 1
        domain = self._sets[0].domain
        context.dropped.append(DroppedJob(domain, context.submitter.timeout_ms, time.monotonic()))
        if self._attempt == MAX_ATTEMPTS:
            counters.failed += 1
            raise UnhealthyError(
                f"a job of {self._linked.count} programs on core {self.core} never finished",
                why=f"task {self._done} of {self._end} ({entry.task.weight_name}) wrote no result in "
                f"{self._attempt + 1} submits with a reset between; all results are void",
                do="look at `ork board log`, then `ork board recover`",
            )
        self._attempt += 1
        context.reset()
        counters.resets += 1
        counters.resubmits += 1
        self._seed(self._entries[self._done : self._end])
        context.submitter.start_on(self.core, self._linked.job_from(entry.first))
        self._moved = time.monotonic()

    def listing(self) -> list[str]:
        """One line per task, for looking at a run: its programs, its weight, whether it is complete."""
        return [
            f"{index} programs {entry.first}..{entry.last} {entry.task.weight_name} "
            f"{'complete' if index < self._done else 'open'}"
            for index, entry in enumerate(self._entries)
        ]

    def close(self) -> None:
        """Give the memory back. After a failure it is kept until the NPU closes: the job may still write.

        Raises:
            LifetimeError: it is running.
        """
        self._require("close", *(state for state in DoorbellState if state not in _RUNNING))
        if self.state not in (DoorbellState.IDLE, DoorbellState.FREED) and not self._void:
            self._linked.release()
            for bound in self._sets:
                bound.free()
        self.state = DoorbellState.FREED

    def __enter__(self) -> Doorbell:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self.state in _RUNNING:
                self.end()
        finally:
            self.close()


def _require_rows(tasks: Sequence[ChainTask]) -> None:
    for task in tasks:
        if not 1 <= task.rows <= MAX_ROWS:
            raise OperandError("doorbell", why=f"a task of {task.rows} rows; allowed: 1 to {MAX_ROWS}")
