"""Help: the key table and what the words on the screen mean. Scrolls where the terminal is too small for it."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from textual.binding import Binding
from textual.screen import Screen

from orkbench_tui.screens.help_words import WORDS
from orkbench_tui.screens.keys import KEYS, keys_for
from orkbench_tui.screens.text_line import Line, Span, beside, fit, line
from orkbench_tui.screens.view_state import ViewState
from orkbench_tui.screens.views.section import title
from orkbench_tui.screens.widgets.lines import LinesWidget

__all__ = ["HelpScreen", "help_lines", "help_page"]

_KEY_CELLS, _WORD_CELLS = 8, 19


def help_lines(state: ViewState, width: int) -> list[Line]:
    """All of the help, wrapped to ``width``."""
    glyphs = state.glyphs
    lines: list[Line] = [title("Keys", (), width, glyphs)]
    shown = [key for key in KEYS if key.where in ("everywhere", "log")]
    cells = [
        line((f" {key.shown:>6} ", "key"), (key.help if key.where != "log" else f"log: {key.help}", "text"))
        for key in shown
    ]
    if width >= 110:
        half = -(-len(cells) // 2)
        left = [fit(cell, width // 2, glyphs.cut) for cell in cells[:half]]
        right = [*cells[half:], ()][:half]
        lines += [(*first, *second) for first, second in zip(left, right, strict=True)]
    else:
        lines += [cell for cell, key in zip(cells, shown, strict=True) if key.where != "log"]
        brief = ", ".join(f"{key.shown} {key.label}" for key in shown if key.where == "log")
        lines += _wrapped(Span("    log ", "key"), brief, width, _KEY_CELLS)
    lines.append(title("Words", (), width, glyphs))
    for word, text in WORDS:
        lines += _wrapped(Span(f" {word:<{_WORD_CELLS - 2}} ", "value"), text, width, _WORD_CELLS)
    return lines


def help_page(state: ViewState, width: int, height: int, first: int = 0) -> list[Line]:
    """Exactly ``height`` lines from ``first`` on, the last of them saying how to move and leave."""
    lines, room = help_lines(state, width), max(height - 1, 0)
    first = min(first, max(0, len(lines) - room))
    left = [Span(" ? or esc", "key"), Span(" back", "dim")]
    right: Line = ()
    if len(lines) > room:
        left += [Span("  k/j PgUp/PgDn", "key"), Span(" scroll", "dim")]
        right = line((f"{first + 1} to {min(first + room, len(lines))} of {len(lines)} ", "dim"))
    page = lines[first : first + room]
    page += [()] * (room - len(page))
    foot = beside(left, right, width, state.glyphs.cut)
    return [fit(item, width, state.glyphs.cut) for item in (*page, foot)][:height]


def _wrapped(head: Span, text: str, width: int, indent: int) -> list[Line]:
    parts = textwrap.wrap(text, max(width - indent - 1, 10))
    return [
        (head if index == 0 else Span(" " * indent), Span(part, "text")) for index, part in enumerate(parts)
    ]


class HelpScreen(Screen[None]):
    """Covers the screen below; the next sample is drawn there when it closes."""

    BINDINGS = [Binding(key.keys, key.action, key.label, show=False) for key in keys_for("help")]  # noqa: RUF012

    def __init__(self, *, colour: bool) -> None:
        super().__init__()
        self._page = LinesWidget("help-page", self._view, colour=colour)
        self._page.styles.width = "100%"
        self._page.styles.height = "100%"
        self._state = ViewState()
        self._first = 0

    def compose(self) -> Iterator[LinesWidget]:
        yield self._page

    def _view(self, state: ViewState, width: int, height: int) -> list[Line]:
        # A larger terminal may show more than there is from here on.
        self._first = min(self._first, max(0, len(help_lines(state, width)) - height + 1))
        return help_page(state, width, height, self._first)

    def show(self, state: ViewState) -> None:
        self._state = state
        self._page.show(state)

    def action_scroll_help(self, step: int) -> None:
        self._first = max(0, self._first + step)
        self._page.show(self._state)

    def action_scroll_help_page(self, direction: int) -> None:
        self.action_scroll_help(direction * max(1, self.size.height - 2))
