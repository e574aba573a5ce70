"""Domains: the NPU's address windows, live."""

from __future__ import annotations

from orkbench_tui.screens.listing import moved
from orkbench_tui.screens.page import Page, bindings_for
from orkbench_tui.screens.text_line import Line
from orkbench_tui.screens.view_state import ViewState
from orkbench_tui.screens.views.domains import domain_rows, domains_lines

__all__ = ["DomainsScreen"]


class DomainsScreen(Page):
    where = "domains"
    live = True
    BINDINGS = bindings_for("domains")

    def __init__(self) -> None:
        super().__init__()
        self._chosen = 0

    def _count(self) -> int:
        return len(domain_rows(self.state.sample))

    def lines(self, state: ViewState, width: int, height: int) -> list[Line]:
        return domains_lines(state, min(self._chosen, max(0, self._count() - 1)), width, height)

    def action_move(self, step: int) -> None:
        self._chosen = moved(self._chosen, step, self._count())
        self.redraw()

    def action_move_page(self, direction: int) -> None:
        self.action_move(direction * 5)

    def action_move_end(self, direction: int) -> None:
        self.action_move(direction * 10_000)
