"""Rules: every guard with its reason and evidence, and the table of mode changes."""

from __future__ import annotations

import dataclasses

from orkbench_tui.screens.listing import moved
from orkbench_tui.screens.page import Page, bindings_for
from orkbench_tui.screens.text_line import Line
from orkbench_tui.screens.view_state import ViewState
from orkbench_tui.screens.views.rules import RulesShown, rule_count, rules_lines

__all__ = ["RulesScreen"]


class RulesScreen(Page):
    where = "rules"
    BINDINGS = bindings_for("rules")

    def __init__(self) -> None:
        super().__init__()
        self._shown = RulesShown()

    def lines(self, state: ViewState, width: int, height: int) -> list[Line]:
        return rules_lines(self._shown, state, width, height)

    def action_other(self) -> None:
        self._shown = RulesShown(modes=not self._shown.modes)
        self.redraw()

    def action_move(self, step: int) -> None:
        chosen = moved(self._shown.chosen, step, rule_count(self._shown))
        self._shown = dataclasses.replace(self._shown, chosen=chosen)
        self.redraw()

    def action_move_page(self, direction: int) -> None:
        self.action_move(direction * max(1, self.room - 10))

    def action_move_end(self, direction: int) -> None:
        self.action_move(direction * 10_000)
