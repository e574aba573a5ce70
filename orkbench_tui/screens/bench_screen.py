"""Bench: own results with their history, and the published figures beside the model's."""

from __future__ import annotations

import dataclasses

from orkbench_tui.driver.timing.reproduction import comparisons
from orkbench_tui.screens.listing import moved
from orkbench_tui.screens.page import Page, bindings_for
from orkbench_tui.screens.services import Services
from orkbench_tui.screens.text_line import Line
from orkbench_tui.screens.view_state import ViewState
from orkbench_tui.screens.views.bench import BenchShown, bench_lines, next_view, row_count
from orkbench_tui.screens.work.background import Post, failure_line, start
from orkbench_tui.screens.work.bench_reading import read_bench

__all__ = ["BenchScreen"]


class BenchScreen(Page):
    """Reads the ledger each time it is shown."""

    where = "bench"
    BINDINGS = bindings_for("bench")

    def __init__(self, services: Services, post: Post) -> None:
        super().__init__()
        self._services, self._post = services, post
        self._shown = BenchShown()

    def on_screen_resume(self) -> None:
        start("bench list", self._read)

    def _read(self) -> None:
        try:
            found = read_bench(self._services)
        except Exception as error:  # noqa: BLE001 - the page must say what is wrong with its ledger
            found = BenchShown(comparisons=tuple(comparisons()), note=failure_line(error))
        self._post(lambda: self._listed(found))

    def _listed(self, found: BenchShown) -> None:
        published = self._shown.published or (not found.own and not self._shown.comparisons)
        compared = self._shown.compared and bool(found.arms)
        found = dataclasses.replace(found, published=published and not compared, compared=compared)
        chosen = moved(self._shown.chosen, 0, row_count(found))
        self._shown = dataclasses.replace(found, chosen=chosen)
        self.redraw()

    def lines(self, state: ViewState, width: int, height: int) -> list[Line]:
        return bench_lines(self._shown, state, width, height)

    def action_other(self) -> None:
        self._shown = next_view(self._shown)
        self.redraw()

    def action_move(self, step: int) -> None:
        chosen = moved(self._shown.chosen, step, row_count(self._shown))
        self._shown = dataclasses.replace(self._shown, chosen=chosen)
        self.redraw()

    def action_move_page(self, direction: int) -> None:
        self.action_move(direction * max(1, self.room - 10))

    def action_move_end(self, direction: int) -> None:
        self.action_move(direction * 100_000)
