"""Help: the key tables and what the words on the screens mean. Scrolls where the terminal is too small for it."""

from __future__ import annotations

from orkbench_tui.screens.listing import moved
from orkbench_tui.screens.page import Page, bindings_for
from orkbench_tui.screens.text_line import Line
from orkbench_tui.screens.view_state import ViewState
from orkbench_tui.screens.views.help import help_lines

__all__ = ["HelpScreen"]


class HelpScreen(Page):
    """``about`` is the page it was opened from: its keys come first."""

    where = "help"
    BINDINGS = bindings_for("help")

    def __init__(self) -> None:
        super().__init__()
        self.about = ""
        self._first = 0

    def opened_from(self, where: str) -> None:
        self.about, self._first = where, 0

    def lines(self, state: ViewState, width: int, height: int) -> list[Line]:
        everything = help_lines(state, width, self.about)
        self._first = min(self._first, max(0, len(everything) - height))
        return everything[self._first : self._first + height]

    def said(self) -> str:
        count = len(help_lines(self.state, max(self.size.width, 20), self.about))
        if count <= self.room:
            return ""
        last = min(self._first + self.room, count)
        return f"lines {self._first + 1} to {last} of {count}; k/j PgUp/PgDn scroll, ? or esc back"

    def action_move(self, step: int) -> None:
        self._first = moved(self._first, step, len(help_lines(self.state, self.size.width, self.about)))
        self.redraw()

    def action_move_page(self, direction: int) -> None:
        self.action_move(direction * max(1, self.room - 1))

    def action_move_end(self, direction: int) -> None:
        self.action_move(direction * 100_000)
