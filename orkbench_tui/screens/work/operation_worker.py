"""Guarded operations for the screen: a plan, a run, or the ladder, each on a thread that only posts what it found."""

from __future__ import annotations

import contextlib
import dataclasses
import queue
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from orkbench_tui.errors import RefusedError
from orkbench_tui.ops.guard import engine
from orkbench_tui.ops.guard.board import GuardedBoard
from orkbench_tui.ops.guard.confirmation import demanded, require
from orkbench_tui.ops.guard.declaration import Operation, Plan
from orkbench_tui.ops.guard.engine import operations_lock
from orkbench_tui.ops.guard.watching import watched
from orkbench_tui.ops.guard.wording import plan_lines
from orkbench_tui.ops.operations import recover as ladder
from orkbench_tui.screens.services import Aside, Hear, HoldNpu, Services
from orkbench_tui.screens.work.background import Post, ended, start

__all__ = ["Ended", "OperationWorker", "Planned"]


@dataclass(frozen=True, slots=True)
class Planned:
    """A plan to look at. ``plan`` is None for the ladder, whose rungs ask by themselves; ``blocked`` says why it
    cannot be carried out, "" where it can.
    """

    lines: tuple[str, ...]
    plan: Plan | None
    blocked: str = ""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a run ended, in lines; the first is the result."""

    good: bool
    lines: tuple[str, ...]


class OperationWorker:
    """One thing at a time. ``hear`` gets progress, ``asked`` a rung's plan and the words that confirm it."""

    def __init__(self, services: Services, post: Post, aside: Aside) -> None:
        self._services, self._post, self._aside = services, post, aside
        self._answers: queue.Queue[str] = queue.Queue()
        self.running = ""

    # what the screen calls

    def plan(
        self,
        operation: Operation,
        words: Mapping[str, str],
        hear: Hear,
        done: Callable[[Planned | Ended], None],
    ) -> None:
        self._work(f"planning {operation.name}", lambda: self._plan(operation, words, hear), done)

    def run(self, planned: Plan, confirm: str, hear: Hear, done: Callable[[Planned | Ended], None]) -> None:
        self._work(planned.operation.name, lambda: self._run(planned, confirm, hear), done)

    def climb(
        self, hear: Hear, asked: Callable[[Plan, str], None], done: Callable[[Planned | Ended], None]
    ) -> None:
        """The ladder; each risky rung waits for ``answer``."""
        self._work("recover", lambda: self._climb(hear, asked), done)

    def answer(self, text: str) -> None:
        """The words typed for the rung that asked; "" is a no."""
        self._answers.put(text)

    def resume(self, hear: Hear, done: Callable[[Planned | Ended], None]) -> None:
        self._work("resume", lambda: self._resume(hear), done)

    # on the thread

    def _work(
        self, name: str, work: Callable[[], Planned | Ended], done: Callable[[Planned | Ended], None]
    ) -> None:
        if self.running:
            return
        self.running = name

        def whole() -> None:
            result = ended(work, lambda said: Ended(False, (said,)))

            def deliver() -> None:
                self.running = ""
                done(result)

            self._post(deliver)

        start(f"operation {name}", whole)

    @contextlib.contextmanager
    def _opened(self, hear: Hear) -> Iterator[tuple[HoldNpu, GuardedBoard]]:
        def told(text: str) -> None:
            if text:
                self._post(lambda: hear(text))

        with self._services.guarded(told, self._aside) as (hold, board):
            yield hold, dataclasses.replace(board, effects=watched(board.effects, told), tell=told)

    def _plan(self, operation: Operation, words: Mapping[str, str], hear: Hear) -> Planned:
        with self._opened(hear) as (hold, board):
            if operation is ladder.RECOVER:
                with contextlib.closing(operations_lock(board)):
                    hold()
                    found = ladder.recover(
                        board, max_rung=ladder.MAX_RUNG, dry_run=True, consent=lambda plan: "not asked"
                    )
                why = "" if found.fault else "the board is healthy; there is nothing to recover"
                return Planned(tuple(found.lines()), None, why)
            plan = operation.plan(board, words)
        blocked = ""
        if plan.refusals:
            blocked = f"refused, {plan.refusal}"
        elif not plan.steps:
            blocked = "there is nothing to do"
        return Planned(tuple(plan_lines(plan)), plan, blocked)

    def _run(self, planned: Plan, confirm: str, hear: Hear) -> Planned | Ended:
        operation = planned.operation
        with self._opened(hear) as (hold, board), contextlib.closing(operations_lock(board)):
            if operation.holds_npu:
                hold()
            plan = operation.plan(board, planned.words)
            if plan.steps != planned.steps or plan.host != planned.host:
                return Planned(
                    tuple(plan_lines(plan)),
                    plan,
                    "the board has changed since; this is the plan now, look again",
                )
            _confirmed(plan, confirm)
            outcome = engine.run(board, plan)
            after = operation.plan(board, planned.words).facts
        lines = [outcome.text, *[f"{name}: {value}" for name, value in after], f"journal {outcome.id}"]
        return Ended(outcome.ok, tuple(lines))

    def _climb(self, hear: Hear, asked: Callable[[Plan, str], None]) -> Ended:
        def consent(plan: Plan) -> str:
            self._post(lambda: asked(plan, demanded(plan)))
            try:
                _confirmed(plan, self._answers.get())
            except RefusedError as error:
                return error.line()
            return ""

        self._answers = queue.Queue()
        with self._opened(hear) as (hold, board), contextlib.closing(operations_lock(board)):
            hold()
            found = ladder.recover(board, max_rung=ladder.MAX_RUNG, dry_run=False, consent=consent)
        lines = found.lines()
        return Ended(found.healthy, (lines[-1], *lines[:-1]))

    def _resume(self, hear: Hear) -> Ended:
        with self._opened(hear) as (_, board), contextlib.closing(operations_lock(board)):
            outcomes = engine.resume(board)
        lines = tuple(f"{item.operation}: {item.kind}, {item.text}" for item in outcomes)
        good = all(item.kind != engine.INCONSISTENT for item in outcomes)
        return Ended(good, lines or ("nothing was interrupted",))


def _confirmed(plan: Plan, typed: str) -> None:
    """Raises RefusedError unless ``typed`` is what the plan demands."""
    require(plan, yes=False, confirm="", ask=lambda question: typed.strip())
