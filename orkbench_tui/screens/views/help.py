"""Help as lines: the key tables, and what the words on the screens mean."""

from __future__ import annotations

import textwrap

from orkbench_tui.ops.telemetry.sample import Sample
from orkbench_tui.screens.help_words import WORDS
from orkbench_tui.screens.keys import EDITING, PAGES, keys_for
from orkbench_tui.screens.text_line import Line, Span, fit, line
from orkbench_tui.screens.view_state import ViewState
from orkbench_tui.screens.views.gaps import board_facts
from orkbench_tui.screens.views.section import title

__all__ = ["help_lines", "help_spoken"]

_KEY_CELLS, _WORD_CELLS = 8, 19


def help_lines(state: ViewState, width: int, about: str = "") -> list[Line]:
    """All of the help, wrapped to ``width``; the keys of the page ``about`` first.

    On the dashboard what it may have had no room for comes before them: caps, trip point, and what could not be read.
    """
    glyphs = state.glyphs
    lines: list[Line] = []
    if about == "dashboard" and state.sample is not None:
        lines += _this_board(state.sample, state, width)
    order = sorted(PAGES, key=lambda page: page.name != about)
    if about and keys_for(about):
        lines += _page_keys(about, order[0].title, state, width)
    lines.append(title("Keys everywhere", (), width, glyphs))
    lines += _columns([_key(key.shown, key.help) for key in keys_for("everywhere")], state, width)
    for page in order:
        if page.name != about and keys_for(page.name):
            lines += _page_keys(page.name, page.title, state, width)
    lines.append(title("While typing", (), width, glyphs))
    for shown, text in EDITING:
        lines += _wrapped(Span(f" {shown} ", "key"), text, width, len(shown) + 2)
    lines.append(title("Words", (), width, glyphs))
    for word, text in WORDS:
        lines += _wrapped(Span(f" {word:<{_WORD_CELLS - 2}} ", "value"), text, width, _WORD_CELLS)
    lines.append(title("The same without screens", (), width, glyphs))
    for page in PAGES:
        lines += _wrapped(
            Span(f" {page.title:<{_WORD_CELLS - 2}} ", "value"), page.command, width, _WORD_CELLS
        )
    return lines


def _this_board(sample: Sample, state: ViewState, width: int) -> list[Line]:
    lines: list[Line] = [title("This board", (), width, state.glyphs)]
    for name, told in board_facts(sample, state.glyphs):
        lines += _wrapped(Span(f" {name:<{_WORD_CELLS - 2}} ", "value"), told, width, _WORD_CELLS)
    return lines


def _page_keys(where: str, name: str, state: ViewState, width: int) -> list[Line]:
    cells = [_key(key.shown, key.help) for key in keys_for(where)]
    return [title(f"Keys on {name}", (), width, state.glyphs), *_columns(cells, state, width)]


def _key(shown: str, text: str) -> Line:
    return line((f" {shown:>6} ", "key"), (text, "text"))


def _columns(cells: list[Line], state: ViewState, width: int) -> list[Line]:
    """Two columns where they are wide enough, else one, wrapped."""
    if width >= 124:
        half = -(-len(cells) // 2)
        left = [fit(cell, width // 2, state.glyphs.cut) for cell in cells[:half]]
        right = [*cells[half:], ()][:half]
        return [(*first, *second) for first, second in zip(left, right, strict=True)]
    return [part for cell in cells for part in _wrapped(cell[0], cell[1].text, width, _KEY_CELLS)]


def _wrapped(head: Span, text: str, width: int, indent: int) -> list[Line]:
    parts = textwrap.wrap(text, max(width - indent - 1, 10), break_on_hyphens=False)
    return [
        (head if index == 0 else Span(" " * indent), Span(part, "text")) for index, part in enumerate(parts)
    ]


def help_spoken(state: ViewState) -> list[str]:
    """What the words mean; the keys of screens are of no use to who reads lines."""
    return [f"{word}: {text}" for word, text in WORDS]
