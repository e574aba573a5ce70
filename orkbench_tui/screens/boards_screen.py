"""Many boards at once; enter shows one of them on the other pages."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

from orkbench_tui.ops.remote.link import LinkState
from orkbench_tui.screens.listing import moved
from orkbench_tui.screens.page import Page, bindings_for
from orkbench_tui.screens.text_line import Line
from orkbench_tui.screens.view_state import ViewState
from orkbench_tui.screens.views.boards import boards_lines

__all__ = ["Boards", "BoardsScreen"]


class Boards(Protocol):
    """The boards that are followed."""

    def states(self) -> tuple[LinkState, ...]: ...


class BoardsScreen(Page):
    """``watch`` is called with the host whose samples the other pages shall show."""

    where = "boards"
    BINDINGS = bindings_for("boards")

    def __init__(
        self,
        boards: Boards,
        shown_host: Callable[[], str],
        watch: Callable[[str], None],
        wall: Callable[[], float] = time.time,
    ) -> None:
        super().__init__()
        self._boards, self._shown_host, self._watch, self._wall = boards, shown_host, watch, wall
        self._chosen = 0

    def on_mount(self) -> None:
        self.set_interval(1.0, self._look)

    def _look(self) -> None:
        if self.is_current:
            self.redraw()

    def lines(self, state: ViewState, width: int, height: int) -> list[Line]:
        states = self._boards.states()
        self._chosen = moved(self._chosen, 0, len(states))
        return boards_lines(
            states, self._chosen, self._shown_host(), self._wall(), width, height, state.glyphs
        )

    def action_move(self, step: int) -> None:
        self._chosen = moved(self._chosen, step, len(self._boards.states()))
        self.redraw()

    def action_move_page(self, direction: int) -> None:
        self.action_move(direction * max(1, self.room - 2))

    def action_move_end(self, direction: int) -> None:
        self.action_move(direction * 10_000)

    def action_watch(self) -> None:
        self._watch(self._boards.states()[self._chosen].host)
