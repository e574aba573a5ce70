"""Doorbells over several cores: the columns of every task are split, each core watches its own part.

One submit with several cores in its mask wedges a board, so each core gets a submit of its own; none of
them waits. A task counts as complete when all its parts are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from types import TracebackType

import numpy as np

from orkbench_tui.driver.context import Context
from orkbench_tui.driver.doorbell import Doorbell, DoorbellState
from orkbench_tui.driver.failures import LifetimeError, OperandError
from orkbench_tui.driver.matmul.operands import require_array
from orkbench_tui.driver.matmul.splitting import even_parts
from orkbench_tui.driver.matmul.weights import column_view
from orkbench_tui.driver.task_rules import ChainTask
from orkbench_tui.errors import OrkError

__all__ = ["SpreadDoorbell"]


@dataclass(frozen=True, slots=True)
class _Part:
    """Columns ``[column, column + width)`` of task ``task``, on one core."""

    task: int
    column: int
    width: int


def _parts(tasks: Sequence[ChainTask], cores: int) -> list[list[_Part]]:
    """What each core does, in the order of the tasks; narrow tasks leave the last cores out."""
    shares: list[list[_Part]] = [[] for _ in range(cores)]
    for index, task in enumerate(tasks):
        group = task.weight.format.precision.kernel_group
        for core, (column, width) in enumerate(even_parts(task.weight.n, cores, group)):
            shares[core].append(_Part(index, column, width))
    return [share for share in shares if share]


class SpreadDoorbell:
    """``build`` -> ``begin`` -> (``progress``) -> ``end`` -> ``close``, on up to ``cores`` cores at once.

    Tasks have up to 64 rows, their activations and outputs are ordinary arrays. A run on several cores
    can neither be halted nor appended to: the cores would end at different tasks.
    """

    def __init__(self, context: Context, *, cores: int | None = None) -> None:
        wanted = context.soc.cores if cores is None else cores
        if not 1 <= wanted <= context.soc.cores:
            raise OperandError("doorbell", why=f"{wanted} cores, allowed: 1 to {context.soc.cores}")
        self._context = context
        self._cores = wanted
        self._shares: list[list[_Part]] = []
        self._bells: list[Doorbell] = []
        self.activations: tuple[np.ndarray, ...] = ()
        self.outputs: tuple[np.ndarray, ...] = ()
        self.state = DoorbellState.IDLE

    def _require(self, call: str, *states: DoorbellState) -> None:
        if self.state not in states:
            raise LifetimeError(
                f"doorbell.{call}", why=f"it is {self.state}; allowed when {' or '.join(states)}"
            )

    @property
    def cores(self) -> int:
        """How many cores the tasks of ``build`` reach."""
        return len(self._shares)

    def build(self, tasks: Sequence[ChainTask]) -> None:
        """Bind tasks to memory on their cores; ``activations[i]`` [rows, k] are filled before ``begin``.

        Raises:
            OperandError, RefusedError, LifetimeError: see ``Doorbell.build``; nothing stays behind.
        """
        self._require("build", DoorbellState.IDLE)
        if not tasks:
            raise OperandError("doorbell", why="no tasks; at least 1 is needed")
        whole = [_with_arrays(task) for task in tasks]
        shares = _parts(whole, self._cores)
        bells: list[Doorbell] = []
        try:
            for core, share in enumerate(shares):
                bell = Doorbell(self._context, core=core)
                bells.append(bell)
                bell.build([_narrowed(whole[part.task], part) for part in share])
        except BaseException:
            for bell in bells:
                bell.close()
            raise
        self._shares, self._bells = shares, bells
        self.activations = tuple(task.a for task in whole if task.a is not None)
        self.outputs = tuple(task.output for task in whole if task.output is not None)
        self.state = DoorbellState.BUILT

    def begin(self) -> None:
        """Submit to every core. When one does not take it, those begun are ended and the error is raised.

        Raises:
            OrkError: see ``Doorbell.begin``; the state is still BUILT when no core had begun, else FREED.
        """
        self._require("begin", DoorbellState.BUILT)
        begun: list[Doorbell] = []
        try:
            for bell in self._bells:
                bell.begin()
                begun.append(bell)
        except BaseException:
            if begun:
                self.state = DoorbellState.FREED
                _end_all(begun, quiet=True)
                for bell in self._bells:
                    bell.close()
            raise
        self.state = DoorbellState.SUBMITTED

    def progress(self) -> int:
        """How many tasks are complete without a gap, counted from the first.

        Raises:
            LifetimeError: nothing was submitted.
        """
        self._require("progress", DoorbellState.SUBMITTED, DoorbellState.DRAINED)
        return min(
            self._first_open(share, bell.progress())
            for share, bell in zip(self._shares, self._bells, strict=True)
        )

    def _first_open(self, share: Sequence[_Part], done: int) -> int:
        """The first task a core with ``done`` complete parts still has to do."""
        return share[done].task if done < len(share) else len(self.outputs)

    def end(self) -> int:
        """Wait for all cores and bring the results to ``outputs``; returns how many tasks are complete.

        Raises:
            UnhealthyError, OrkError: see ``Doorbell.end``; every core is waited for first, all outputs are
                void.
            LifetimeError: wrong state.
        """
        self._require("end", DoorbellState.SUBMITTED)
        self.state = DoorbellState.DRAINED
        _end_all(self._bells)
        for share, bell in zip(self._shares, self._bells, strict=True):
            for part, result in zip(share, bell.outputs, strict=True):
                self.outputs[part.task][:, part.column : part.column + part.width] = result
        return self.progress()

    def close(self) -> None:
        """Give the memory back; see ``Doorbell.close``.

        Raises:
            LifetimeError: it is running.
        """
        self._require("close", *(state for state in DoorbellState if state is not DoorbellState.SUBMITTED))
        if self.state is not DoorbellState.FREED:
            for bell in self._bells:
                bell.close()
        self.state = DoorbellState.FREED

    def __enter__(self) -> SpreadDoorbell:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self.state is DoorbellState.SUBMITTED:
                self.end()
        finally:
            self.close()


def _end_all(bells: Sequence[Doorbell], *, quiet: bool = False) -> None:
    """End every one, whatever happens to the others; then raise the first failure unless ``quiet``."""
    failure: OrkError | None = None
    for bell in bells:
        try:
            bell.end()
        except OrkError as error:
            failure = failure or error
    if failure is not None and not quiet:
        raise failure


def _with_arrays(task: ChainTask) -> ChainTask:
    """The task with arrays for A and C where the caller gave none."""
    format, shape = task.weight.format, (task.rows, task.weight.n)
    if task.output is not None:
        require_array(task.output, shape, format.total, "output")
    return replace(
        task,
        a=np.zeros((max(0, task.rows), task.weight.k), format.operand) if task.a is None else task.a,
        output=np.empty((max(0, task.rows), task.weight.n), format.total)
        if task.output is None
        else task.output,
    )


def _narrowed(task: ChainTask, part: _Part) -> ChainTask:
    return replace(task, weight=column_view(task.weight, part.column, part.width), output=None)
