"""Doctor: the preflight, read again on a key, with a way to the operation that helps."""

from __future__ import annotations

from collections.abc import Callable

from orkbench_tui.ops.doctor.checks import Outcome, run_checks
from orkbench_tui.screens.listing import moved
from orkbench_tui.screens.page import Page, bindings_for
from orkbench_tui.screens.services import Services
from orkbench_tui.screens.text_line import Line
from orkbench_tui.screens.view_state import ViewState
from orkbench_tui.screens.views.doctor import FIXES, doctor_lines, first_of_note
from orkbench_tui.screens.work.background import Post, failure_line, start

__all__ = ["DoctorScreen"]

_READING = "reading the board in two windows of the NPU's load, about two seconds"


class DoctorScreen(Page):
    """Reads the board when it is first shown. ``go_to`` opens an operation."""

    where = "doctor"
    BINDINGS = bindings_for("doctor")

    def __init__(self, services: Services, post: Post, go_to: Callable[[str, dict[str, str]], None]) -> None:
        super().__init__()
        self._services, self._post, self._go_to = services, post, go_to
        self._outcomes: tuple[Outcome, ...] = ()
        self._note = ""
        self._reading = False
        self._said = ""
        self._chosen = 0
        self._moved = False

    def on_screen_resume(self) -> None:
        if not self._outcomes and not self._reading:
            self.action_check()

    def lines(self, state: ViewState, width: int, height: int) -> list[Line]:
        return doctor_lines(self._outcomes, self._note, self._chosen, state, width, height)

    def said(self) -> str:
        return self._said

    def action_move(self, step: int) -> None:
        self._said = ""
        self._moved = True
        self._chosen = moved(self._chosen, step, len(self._outcomes))
        self.redraw()

    def action_move_page(self, direction: int) -> None:
        self.action_move(direction * max(1, self.room - 8))

    def action_move_end(self, direction: int) -> None:
        self.action_move(direction * 10_000)

    def action_check(self) -> None:
        if self._reading:
            return
        self._reading, self._note, self._said = True, _READING, ""
        start("doctor", self._check)
        self.redraw()

    def _check(self) -> None:
        try:
            outcomes = run_checks(self._services.preflight())
        except Exception as error:  # noqa: BLE001 - the screen must say how it ended, whatever it was
            text = f"the board could not be read: {failure_line(error)}; c tries again"
            self._post(lambda: self._ended(self._outcomes, text))
        else:
            self._post(lambda: self._ended(outcomes, ""))

    def _ended(self, outcomes: tuple[Outcome, ...], note: str) -> None:
        self._reading, self._outcomes, self._note = False, outcomes, note
        self._chosen = moved(self._chosen, 0, len(outcomes)) if self._moved else first_of_note(outcomes)
        self.redraw()

    def action_fix(self) -> None:
        if not self._outcomes:
            return
        outcome = self._outcomes[self._chosen]
        if outcome.finding.status not in ("warn", "fail"):
            self._said = f"{outcome.check.id} wants nothing"
        elif outcome.check.id in FIXES:
            name, words = FIXES[outcome.check.id]
            self._go_to(name, words)
            return
        else:
            self._said = f"no operation does this; by hand: {outcome.fix or outcome.check.want}"
        self.redraw()
