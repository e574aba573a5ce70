"""Operations: choose, see the plan for this board, confirm by typing, follow the journal, read the result, undo."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

from orkbench_tui.ops.guard.confirmation import demanded
from orkbench_tui.ops.guard.declaration import Plan, Risk
from orkbench_tui.ops.guard.journal import readable
from orkbench_tui.ops.guard.wording import plan_lines
from orkbench_tui.screens.listing import moved
from orkbench_tui.screens.page import Page, bindings_for
from orkbench_tui.screens.text_line import Line
from orkbench_tui.screens.view_state import ViewState
from orkbench_tui.screens.views.next_step import next_operation
from orkbench_tui.screens.views.operations import (
    CHOICES,
    OperationsShown,
    journal_row,
    operations_lines,
    with_progress,
)
from orkbench_tui.screens.work.background import failure_line
from orkbench_tui.screens.work.operation_worker import Ended, OperationWorker, Planned

__all__ = ["OperationsScreen"]

_MAX_PROGRESS = 200


class OperationsScreen(Page):
    """``held_by_chat`` says whether this program's own chat holds the NPU; ``unfinished`` what was interrupted."""

    where = "operations"
    BINDINGS = bindings_for("operations")

    def __init__(
        self,
        worker: OperationWorker,
        state_dir: Path,
        held_by_chat: Callable[[], bool],
        unfinished: Callable[[], list[str]] = list,
    ) -> None:
        super().__init__()
        self._worker = worker
        self._state_dir = state_dir
        self._held_by_chat = held_by_chat
        self._unfinished = unfinished
        self._open = ""
        self._shown = OperationsShown()
        self._planned: Planned | None = None
        self._rung: Plan | None = None
        self._wants = ""
        self._said = ""
        self._moved = False
        self._just_opened = False

    @property
    def running(self) -> str:
        """The operation under way that changes something, "" for none."""
        name = self._worker.running
        return "" if name.startswith("planning") else name

    def opened_from(self, where: str) -> None:
        self._just_opened = True
        self._look_for_unfinished()

    def _look_for_unfinished(self) -> None:
        try:
            self._open = next(iter(self._unfinished()), "")
        except OSError as error:
            self._open = failure_line(error)

    def show(self, state: ViewState) -> None:
        """Opened while the board is in trouble, and never moved on, it points at what the dashboard advises."""
        if self._just_opened and state.sample is not None:
            self._just_opened = False
            if not self._moved and (name := next_operation(state.sample)):
                self.choose(name)
                self._moved = False
        super().show(state)

    def lines(self, state: ViewState, width: int, height: int) -> list[Line]:
        return operations_lines(self._shown, state, width, height, self._open)

    def said(self) -> str:
        if self._said:
            return self._said
        return f"{self._worker.running} is at work" if self._worker.running else ""

    def choose(self, name: str, **words: str) -> None:
        """Point at an operation, from another page."""
        for index, choice in enumerate(CHOICES):
            if choice.operation.name == name and (not words or dict(choice.words) == words):
                self._to(index)
                return

    def choose_row(self, index: int) -> None:
        self._to(index)

    # moving

    def _to(self, chosen: int) -> None:
        if self._worker.running:
            return
        self._planned = None
        self._said = ""
        self._moved = True
        self._shown = OperationsShown(chosen=chosen)
        self.redraw()

    def action_move(self, step: int) -> None:
        self._to(moved(self._shown.chosen, step, len(CHOICES)))

    def action_move_page(self, direction: int) -> None:
        step = direction * max(1, self.room // 2)
        limit = len(self._shown.below) + 40
        self._shown = dataclasses.replace(
            self._shown, scroll=min(max(0, self._shown.scroll + step), limit), from_end=False
        )
        self.redraw()

    def action_move_end(self, direction: int) -> None:
        self._to(0 if direction < 0 else len(CHOICES) - 1)

    # plan

    def action_plan(self) -> None:
        choice = CHOICES[self._shown.chosen]
        if self._busy():
            return
        if choice.asks:
            self._wants = choice.asks
            self.edit(f" {dict(choice.operation.options)[choice.asks]}: ")
            return
        self._plan(dict(choice.words))

    def _plan(self, words: dict[str, str]) -> None:
        choice = CHOICES[self._shown.chosen]
        self._begin(f"Plan of {choice.label}", f"reading the board for {choice.label}")
        self._worker.plan(choice.operation, words, self._hear, self._done)
        self.redraw()

    def action_undo(self) -> None:
        choice = CHOICES[self._shown.chosen]
        back = next((c for c in CHOICES if c.operation is choice.operation and c.undo), None)
        if back is None:
            lasting = choice.operation.lasting or "nothing"
            self._say(f"{choice.operation.name} has no undo of its own; what lasts: {lasting}")
            return
        if self._busy():
            return
        self._to(CHOICES.index(back))
        self.action_plan()

    def action_resume(self) -> None:
        if self._busy():
            return
        self._begin("Resume", "looking for what was interrupted")
        self._worker.resume(self._hear, self._done)
        self.redraw()

    def action_journal(self) -> None:
        if self._busy():
            return
        try:
            # What is shown from here on is no plan, so there is none to carry out.
            self._planned, self._said = None, ""
            runs, wrong = readable(self._state_dir)
        except OSError as error:
            self._show("What was done before", [(failure_line(error), "error")])
            return
        rows = [(failure_line(error), "error") for error in wrong]
        rows += [journal_row(run) for run in reversed(runs)]
        rows = rows or [("no operation was run yet", "dim")]
        self._show("What was done before, newest first", rows)

    # confirm and run

    def action_apply(self) -> None:
        if self._busy():
            return
        if self._planned is None:
            self._say("enter shows the plan first")
        elif self._planned.blocked:
            self._say(self._planned.blocked)
        elif self._planned.plan is None:
            self._begin("Recover", "finding out what is wrong")
            self._worker.climb(self._hear, self._asked, self._done)
            self.redraw()
        else:
            self._ask_for(self._planned.plan)

    def _ask_for(self, plan: Plan) -> None:
        wanted = demanded(plan)
        if plan.operation.risk is Risk.REVERSIBLE:
            self.edit(f" go on? type {wanted} and enter: ")
        else:
            self.edit(f" type {wanted} and enter to go on, esc not to: ")

    def _asked(self, plan: Plan, wanted: str) -> None:
        """A rung of the ladder wants consent."""
        self._rung = plan
        rows = [*self._shown.below, *[(text, "text") for text in plan_lines(plan)]]
        self._show("Recover: this rung asks first", rows, from_end=True)
        self.edit(f" type {wanted} and enter to climb it, esc not to: ")

    def entered(self, text: str) -> None:
        if self._wants:
            name, self._wants = self._wants, ""
            if text.strip():
                self._plan({**CHOICES[self._shown.chosen].words, name: text.strip()})
            return
        if self._rung is not None:
            self._rung = None
            self._worker.answer(text)
            return
        planned, self._planned = self._planned, None
        if planned is None or planned.plan is None:
            return
        wanted = demanded(planned.plan)
        if text.strip() != wanted:
            self._planned = planned
            self._say(f"not confirmed: {wanted} was to be typed; nothing was changed")
            return
        self._begin(f"Running {planned.plan.operation.name}", "begun")
        self._worker.run(planned.plan, text.strip(), self._hear, self._done)

    def abandoned(self) -> None:
        if self._rung is not None:
            self._rung = None
            self._worker.answer("")
        elif self._wants:
            self._wants = ""
        else:
            self._say("not confirmed; nothing was changed")

    # what the worker tells

    def _hear(self, text: str) -> None:
        rows = with_progress(self._shown.below, text)[-_MAX_PROGRESS:]
        self._show(self._shown.heading, rows, from_end=True)

    def _done(self, result: Planned | Ended) -> None:
        self._look_for_unfinished()
        if isinstance(result, Planned):
            self._planned = result
            rows = [(text, _role(text)) for text in result.lines]
            self._said = result.blocked or "a carries this out, after it is confirmed"
            self._show(self._shown.heading.replace("Running", "Plan of"), rows)
            return
        head, *rest = result.lines
        planning = self._shown.heading.startswith("Plan of")
        mark = "" if result.good else f"{self.state.glyphs.severity[4]} "
        rows = [(mark + head, "value" if result.good else "error"), *[(text, "text") for text in rest]]
        if not planning:
            rows += [("", "text"), *self._shown.below]
        self._said = (
            "no plan could be made; nothing was changed"
            if planning
            else "done; J shows the journal"
            if result.good
            else "it did not work; J shows the journal, v resumes what was interrupted"
        )
        self._show("No plan" if planning else "Result", rows)

    def _begin(self, heading: str, first: str) -> None:
        self._moved = True
        self._said = ""
        self._shown = dataclasses.replace(
            self._shown, heading=heading, below=((first, "dim"),), scroll=0, from_end=True
        )

    def _show(self, heading: str, rows: list[tuple[str, str]], from_end: bool = False) -> None:
        self._shown = dataclasses.replace(
            self._shown, heading=heading, below=tuple(rows), scroll=0, from_end=from_end
        )
        self.redraw()

    def _say(self, text: str) -> None:
        self._said = text
        self.redraw()

    def _busy(self) -> bool:
        if self._worker.running:
            self._say(f"{self._worker.running} is at work; wait for it to end")
            return True
        choice = CHOICES[self._shown.chosen]
        if self._held_by_chat() and (choice.operation.holds_npu or choice.operation.name == "drain"):
            self._say("the chat of this program holds the NPU: close it first (7, then w)")
            return True
        return False


def _role(text: str) -> str:
    """Checks of a plan stand out by more than their word."""
    word = text.strip().partition(" ")[0]
    return {"fail": "error", "warn": "warning"}.get(word, "text")
