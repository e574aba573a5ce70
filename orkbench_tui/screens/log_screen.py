"""The kernel log, full screen: followed or paused, filtered, with the meaning of the chosen row."""

from __future__ import annotations

import dataclasses

from orkbench_tui.ops.kernel_log.folding import LogRow
from orkbench_tui.plural import counted
from orkbench_tui.screens.page import Page, bindings_for
from orkbench_tui.screens.text_line import Line
from orkbench_tui.screens.view_state import ViewState
from orkbench_tui.screens.views.log_filter import STEPS, LogFilter, next_event
from orkbench_tui.screens.views.log_page import DETAIL_LINES, log_lines

__all__ = ["LogScreen"]


class LogScreen(Page):
    """Follows the newest row until the cursor is moved off it; paused, it keeps what it showed."""

    where = "log"
    live = True
    BINDINGS = bindings_for("log")

    def __init__(self) -> None:
        super().__init__()
        self._chosen: int | None = None
        self._filter = LogFilter()
        self._held: tuple[LogRow, ...] | None = None
        self._said = ""

    def _all(self) -> tuple[LogRow, ...]:
        if self._held is not None:
            return self._held
        return self.state.sample.log.rows if self.state.sample else ()

    def _rows(self) -> tuple[LogRow, ...]:
        return self._filter.rows(self._all())

    def _at(self, rows: tuple[LogRow, ...]) -> int:
        return len(rows) - 1 if self._chosen is None else min(self._chosen, len(rows) - 1)

    def _heading(self, shown: int) -> str:
        parts = [counted(shown, "row")]
        if words := self._filter.words():
            parts.append(words)
        elif not self._filter.noise:
            parts.append("noise hidden")
        sample = self.state.sample
        if sample is not None and sample.log.facts.lost_records:
            parts.append("the kernel dropped lines")
        if self._held is not None and sample is not None:
            newer = max(0, sum(r.count for r in sample.log.rows) - sum(r.count for r in self._held))
            parts.append(f"PAUSED, {counted(newer, 'new line')} waiting")
        elif self._chosen is None:
            parts.append("following")
        return ", ".join(parts)

    def lines(self, state: ViewState, width: int, height: int) -> list[Line]:
        self.state = state
        rows = self._rows()
        return log_lines(state, rows, self._at(rows), self._heading(len(rows)), width, height)

    def said(self) -> str:
        return self._said

    def _choose(self, chosen: int, rows: tuple[LogRow, ...]) -> None:
        self._said = ""
        last = len(rows) - 1
        self._chosen = None if chosen >= last else max(0, chosen)
        self.redraw()

    def action_move(self, step: int) -> None:
        rows = self._rows()
        self._choose(self._at(rows) + step, rows)

    def action_move_page(self, direction: int) -> None:
        self.action_move(direction * max(1, self.room - DETAIL_LINES - 2))

    def action_move_end(self, direction: int) -> None:
        self._said = ""
        self._chosen = 0 if direction < 0 else None
        self.redraw()

    def action_event(self, direction: int) -> None:
        rows = self._rows()
        here = self._at(rows)
        there = next_event(rows, here, direction)
        if there == here:
            self._said = f"no warning or error {'after' if direction > 0 else 'before'} this line"
            self.redraw()
        else:
            self._choose(there, rows)

    def action_pause(self) -> None:
        self._held = None if self._held is not None else self._all()
        self.redraw()

    def action_noise(self) -> None:
        self._narrow(noise=not self._filter.noise)

    def action_severity(self) -> None:
        self._narrow(least=STEPS[(STEPS.index(self._filter.least) + 1) % len(STEPS)])

    def action_only_class(self) -> None:
        rows = self._rows()
        at = self._at(rows)
        self._narrow(only="" if self._filter.only or at < 0 else rows[at].rule_id)

    def action_search(self) -> None:
        self.edit(" / ", self._filter.text)

    def entered(self, text: str) -> None:
        self._narrow(text=text)

    def _narrow(self, **changes: object) -> None:
        self._filter = dataclasses.replace(self._filter, **changes)  # type: ignore[arg-type]
        self._chosen = None
        self._said = ""
        self.redraw()
