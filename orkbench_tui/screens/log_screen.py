"""The kernel log, full screen: classes, counts, and for the chosen row its meaning, next step and raw line."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from textual.binding import Binding
from textual.screen import Screen

from orkbench_tui.ops.kernel_log.folding import LogRow
from orkbench_tui.screens.keys import keys_for
from orkbench_tui.screens.text_line import Line, Span, fit, foreign, line, plain
from orkbench_tui.screens.view_state import ViewState
from orkbench_tui.screens.views.frame import header_line
from orkbench_tui.screens.views.log import log_row, rows_worth_showing
from orkbench_tui.screens.views.section import title
from orkbench_tui.screens.widgets.lines import LinesWidget

__all__ = ["LogScreen", "log_page"]

_DETAIL_LINES = 7


def log_page(
    state: ViewState, rows: tuple[LogRow, ...], chosen: int, noise: bool, width: int, height: int
) -> list[Line]:
    """The page as lines: header, rows around the chosen one, its details, keys."""
    glyphs, sample = state.glyphs, state.sample
    room = max(1, height - 4 - _DETAIL_LINES)
    start = min(max(0, chosen - room // 2), max(0, len(rows) - room))
    right = line((f"{len(rows)} rows, noise {'shown' if noise else 'hidden'}", "dim"))
    lines: list[Line] = [header_line(state, width), title("Kernel log", right, width, glyphs)]
    for index, row in enumerate(rows[start : start + room], start):
        text = log_row(row, sample, glyphs)
        if index == chosen:
            text = fit((Span(glyphs.cursor + plain(text)[1:], "cursor"),), width, glyphs.cut, "cursor")
        lines.append(text)
    lines += [()] * (2 + room - len(lines))
    lines.append(title("Meaning", (), width, glyphs))
    lines += _details(rows[chosen] if 0 <= chosen < len(rows) else None, width)
    shown = {"up", "down", "oldest", "newest", "noise"}
    keys = [Span(" "), Span("esc", "key"), Span(" back  ", "dim")]
    for key in keys_for("log"):
        if key.label in shown:
            keys += [Span(key.shown, "key"), Span(f" {key.label}  ", "dim")]
    lines = lines[: height - 1] + [()] * (height - 1 - len(lines)) + [tuple(keys)]
    return [fit(item, width, glyphs.cut) for item in lines]


def _details(row: LogRow | None, width: int) -> list[Line]:
    """Meaning, next step and the newest raw lines, wrapped into ``_DETAIL_LINES`` lines."""
    if row is None:
        return [line((" no line about the NPU in the kernel log", "dim"))] + [()] * (_DETAIL_LINES - 1)
    head = f"{row.rule_id}: {row.meaning}"
    if row.next_step:
        head += f". Next: {row.next_step}."
    lines = [line((f" {part}", "text")) for part in textwrap.wrap(head, width - 2)[: _DETAIL_LINES - 1]]
    raw = [part for text in row.lines for part in textwrap.wrap(foreign(text), width - 4) or [""]]
    lines += [line((f"   {part}", "dim")) for part in raw[-(_DETAIL_LINES - len(lines)) :]]
    return lines + [()] * (_DETAIL_LINES - len(lines))


class LogScreen(Screen[None]):
    """Follows the newest row until the cursor is moved off it."""

    BINDINGS = [Binding(key.keys, key.action, key.label, show=False) for key in keys_for("log")]  # noqa: RUF012

    def __init__(self, *, colour: bool) -> None:
        super().__init__()
        self._page = LinesWidget("log-page", self._view, colour=colour)
        self._page.styles.width = "100%"
        self._page.styles.height = "100%"
        self._state = ViewState()
        self._chosen: int | None = None
        self._noise = False

    def compose(self) -> Iterator[LinesWidget]:
        yield self._page

    def _rows(self) -> tuple[LogRow, ...]:
        return rows_worth_showing(self._state.sample, self._noise)

    def _view(self, state: ViewState, width: int, height: int) -> list[Line]:
        rows = self._rows()
        chosen = len(rows) - 1 if self._chosen is None else min(self._chosen, len(rows) - 1)
        return log_page(state, rows, chosen, self._noise, width, height)

    def show(self, state: ViewState) -> None:
        self._state = state
        self._page.show(state)

    def action_move(self, step: int) -> None:
        last = len(self._rows()) - 1
        chosen = (last if self._chosen is None else min(self._chosen, last)) + step
        self._chosen = None if chosen >= last else max(0, chosen)
        self._page.show(self._state)

    def action_move_page(self, direction: int) -> None:
        self.action_move(direction * max(1, self.size.height - 8))

    def action_move_end(self, direction: int) -> None:
        self._chosen = 0 if direction < 0 else None
        self._page.show(self._state)

    def action_noise(self) -> None:
        self._noise = not self._noise
        self._chosen = None
        self._page.show(self._state)
