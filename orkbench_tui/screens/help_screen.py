"""Help: the key table and what the words on the screen mean."""

from __future__ import annotations

from collections.abc import Iterator

from textual.screen import Screen

from orkbench_tui.screens.keys import KEYS
from orkbench_tui.screens.text_line import Line, fit, line
from orkbench_tui.screens.view_state import ViewState
from orkbench_tui.screens.views.section import title
from orkbench_tui.screens.widgets.lines import LinesWidget

__all__ = ["HelpScreen", "help_page"]

_WORDS = (
    ("BOARD SIM REPLAY", "source: silicon, the simulated board, a recording"),
    ("STALE", "no sample for three intervals; what you see is old"),
    ("NO BOARD", "the board's files do not answer; reconnects by itself"),
    ("load %", "busy share of the last full second, from the driver"),
    ("resets >=n", "the kernel log no longer reaches back to boot: at least n"),
    ("d0 to d15", "IOMMU domains: 4 GiB of NPU addresses each"),
    ("plot", "one column per sample, newest at the right, 0 to 100 %"),
    ("?", "not known; `ork board status --json` lists why"),
)


def help_page(state: ViewState, width: int, height: int) -> list[Line]:
    glyphs = state.glyphs
    lines: list[Line] = [title("Keys", (), width, glyphs)]
    cells = [
        line((f" {key.shown:>6} ", "key"), (key.help if key.where != "log" else f"log: {key.help}", "text"))
        for key in KEYS
    ]
    if width >= 110:
        half = -(-len(cells) // 2)
        left = [fit(cell, width // 2, glyphs.cut) for cell in cells[:half]]
        right = [*cells[half:], ()][:half]
        lines += [(*first, *second) for first, second in zip(left, right, strict=True)]
    else:
        main = [cell for cell, key in zip(cells, KEYS, strict=True) if key.where != "log"]
        lines += main
        brief = ", ".join(f"{key.shown} {key.label}" for key in KEYS if key.where == "log")
        lines.append(line(("    log ", "key"), (brief, "text")))
    lines.append(title("Words", (), width, glyphs))
    lines += [
        line((f" {word:<16} ", "value"), (text.replace("…", glyphs.cut), "text")) for word, text in _WORDS
    ]
    lines = (
        lines[: height - 1]
        + [()] * (height - 1 - len(lines))
        + [line((" ? or esc", "key"), (" back", "dim"))]
    )
    return [fit(item, width, glyphs.cut) for item in lines]


class HelpScreen(Screen[None]):
    """Covers the screen below; the next sample is drawn there when it closes."""

    def __init__(self, *, colour: bool) -> None:
        super().__init__()
        self._page = LinesWidget("help-page", help_page, colour=colour)
        self._page.styles.width = "100%"
        self._page.styles.height = "100%"

    def compose(self) -> Iterator[LinesWidget]:
        yield self._page

    def show(self, state: ViewState) -> None:
        self._page.show(state)
