"""A chain that is submitted without waiting, watched through memory, and ended early or made longer.

The kernel tells nobody how such a job ends, and about one in some thousands is never started. So the
result itself is the bell: a pattern is written where it will be, and looked at until it is gone. A
result that does not come within its window is recovered by a reset and a new submit, six times at
most; one that never comes raises, it is never passed off as a result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from types import TracebackType

import numpy as np

from orkbench_tui.driver.context import Context
from orkbench_tui.driver.failures import LifetimeError, OperandError
from orkbench_tui.driver.importer import require_chain_mappings
from orkbench_tui.driver.matmul.plan import MatmulPlan
from orkbench_tui.driver.polled_run import PhaseTimes, PolledRun
from orkbench_tui.driver.run_paths import PathMode, RunPath, path_mode
from orkbench_tui.driver.submit import core_mask_for
from orkbench_tui.driver.task_rules import ChainTask
from orkbench_tui.driver.task_set import TaskSet
from orkbench_tui.errors import RefusedError

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
        self._void = False

    def _require(self, call: str, *states: DoorbellState) -> None:
        if self.state not in states:
            raise LifetimeError(
                f"doorbell.{call}", why=f"it is {self.state}; allowed when {' or '.join(states)}"
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
        self._run = PolledRun(self._context, self.core, bound, reserve)
        self._path: PathMode = path_mode(RunPath.DOORBELL, bound.format)
        self.state = DoorbellState.BUILT

    @property
    def activations(self) -> tuple[np.ndarray, ...]:
        self._require("activations", *list(DoorbellState)[1:])
        return tuple(entry.task.activation.array for entry in self._run.entries)

    @property
    def outputs(self) -> tuple[np.ndarray, ...]:
        self._require("outputs", *list(DoorbellState)[1:])
        return tuple(entry.task.output for entry in self._run.entries)

    def begin(self) -> None:
        """Refresh the activations, write the patterns, and submit.

        Raises:
            LifetimeError: wrong state, something was freed, the core has another doorbell running, or
                a doorbell of another mode or domain runs.
            OperandError: numbers the format does not take.
            OrkError: the kernel did not take the job; the state is still BUILT.
        """
        self._require("begin", DoorbellState.BUILT)
        context = self._context
        if self.core in context.unattended:
            raise LifetimeError(
                "doorbell.begin", why=f"core {self.core} has a doorbell running", do="end that one first"
            )
        for bound in self._run.sets:
            bound.require_ready("doorbell.begin")
        context.gate.enter(self._path, unattended=True)
        try:
            context.domains.enter(self._run.linked.domain, unattended=True)
            try:
                self._run.start()
            except BaseException:
                context.domains.leave(unattended=True)
                raise
        except RefusedError:
            context.gate.leave(self._path, ran=False, unattended=True)
            raise
        except BaseException:
            context.gate.leave(self._path, failed=True, unattended=True)
            raise
        context.unattended[self.core] = self
        self.state = DoorbellState.SUBMITTED

    def progress(self) -> int:
        """How many tasks are complete without a gap, counted from the first.

        Raises:
            LifetimeError: nothing was submitted.
        """
        self._require("progress", *_RUNNING, DoorbellState.DRAINED)
        if self.state in _RUNNING:
            self._run.look()
        return self._run.done

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
        run = self._run
        last = len(run.entries) - 1
        if not 0 <= at < last - 1:
            raise OperandError(
                "doorbell.halt", why=f"at = {at} of {last + 1} tasks; allowed: 0 to {last - 2}"
            )
        if self.progress() >= at:
            return False
        run.linked.end_after(run.entries[at].last)
        run.limit = at + 1
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
        run = self._run
        if len(run.entries) - self.progress() < HEADROOM:
            return False
        self._require_fits(task)
        bound = TaskSet(self._context, [task], polled=True, room=run.room)
        bound.require_ready("doorbell.append")
        before, known = run.linked.count, len(run.entries)
        added = run.add(bound, run.linked.extend(bound.bodies))
        bound.refresh()
        run.seed(added)
        run.linked.join(before - 1)
        if run.uncertain_from is None and known - self.progress() < HEADROOM:
            run.uncertain_from = known
        return True

    def _require_fits(self, task: ChainTask) -> None:
        run, weight = self._run, task.weight
        if weight.format is not run.format or weight.domain != run.linked.domain:
            raise OperandError(
                "doorbell.append",
                why=f"a task of {weight.format.name} in domain {weight.domain} cannot join a run of "
                f"{run.format.name} in domain {run.linked.domain}",
            )
        plan = MatmulPlan(self._context.soc, [weight], task.rows, task.convert, cores=1, reuse=task.reuse)
        steps = plan.steps
        free = run.linked.capacity - run.linked.count
        if steps > free:
            raise OperandError(
                "doorbell.append",
                why=f"{steps} programs, {free} of the reserve left",
                do="reserve more in build",
            )
        imports = frozenset(buffer.handle for buffer in weight.buffers if buffer.source)
        require_chain_mappings(len(imports.union(*(b.imports for b in run.sets))), "the longer run")

    def end(self, done: Callable[[int], None] | None = None) -> int:
        """Wait for the run and bring the results to ``outputs``; returns how many tasks are complete.

        ``done(i)`` is called in order as soon as ``outputs[i]`` is valid, while later tasks still run: the
        place to narrow or scale results on the host in the time the NPU takes anyway. What it raises is
        raised when the run is over, and the outputs are valid all the same. Where a result counts only
        once the core is idle (fp16) all calls come at the end.

        Raises:
            UnhealthyError: a result never came, after six resets and resubmits; the outputs are void.
            OrkError: the device failed or is gone.
            LifetimeError: wrong state.
        """
        self._require("end", *_RUNNING)
        failed = True
        telling = _Telling(self._run, done)
        try:
            self._run.wait(telling.moved)
            failed = False
        finally:
            self._void = failed
            self.state = DoorbellState.DRAINED
            del self._context.unattended[self.core]
            self._context.domains.leave(unattended=True)
            self._context.gate.leave(self._path, failed=failed, unattended=True)
        self._context.after_run()
        if telling.failure is not None:
            raise telling.failure
        return self._run.done

    @property
    def times(self) -> PhaseTimes:
        """What the run has cost the host so far, by phase."""
        self._require("times", *list(DoorbellState)[1:])
        return self._run.times

    def listing(self) -> list[str]:
        """One line per task, for looking at a run: its programs, its weight, whether it is complete."""
        self._require("listing", *list(DoorbellState)[1:])
        return [
            f"{index} programs {entry.first}..{entry.last} {entry.task.weight_name} "
            f"{'complete' if index < self._run.done else 'open'}"
            for index, entry in enumerate(self._run.entries)
        ]

    def close(self) -> None:
        """Give the memory back. After a failure it is kept until the NPU closes: the job may still write.

        Raises:
            LifetimeError: it is running.
        """
        self._require("close", *(state for state in DoorbellState if state not in _RUNNING))
        if self.state in (DoorbellState.BUILT, DoorbellState.DRAINED) and not self._void:
            self._run.free()
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


class _Telling:
    """Fetches what is complete and tells the caller, until the caller's function fails."""

    def __init__(self, run: PolledRun, done: Callable[[int], None] | None) -> None:
        self._run = run
        self._done = done
        self.failure: BaseException | None = None

    def moved(self) -> None:
        for index in self._run.fetch():
            if self._done is None or self.failure is not None:
                continue
            try:
                self._done(index)
            except BaseException as error:  # noqa: BLE001 - raised when the job no longer runs
                self.failure = error


def _require_rows(tasks: Sequence[ChainTask]) -> None:
    for task in tasks:
        if not 1 <= task.rows <= MAX_ROWS:
            raise OperandError("doorbell", why=f"a task of {task.rows} rows; allowed: 1 to {MAX_ROWS}")
