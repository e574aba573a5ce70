"""The one drawing widget: lines made by a view, repainted only where they changed."""

from __future__ import annotations

from collections.abc import Callable

from rich.cells import cell_len
from rich.segment import Segment
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from orkbench_tui.screens.glyphs import ASCII
from orkbench_tui.screens.palette import style_of
from orkbench_tui.screens.text_line import Line, in_ascii
from orkbench_tui.screens.view_state import ViewState

__all__ = ["LinesWidget", "View", "changed_cells"]

View = Callable[[ViewState, int, int], list[Line]]


_JUMP = 16
"""Equal cells between two changes that are cheaper to jump over than to send again."""


def changed_cells(old: Line, new: Line) -> list[tuple[int, int]]:
    """First and end cell of each part that differs between two lines of one width."""
    if old == new:
        return []
    before, after = _cells(old), _cells(new)
    if before is None or after is None or len(before) != len(after):
        return [(0, max(sum(cell_len(span.text) for span in new), 1))]
    parts: list[tuple[int, int]] = []
    for index, (one, other) in enumerate(zip(before, after, strict=True)):
        if one == other:
            continue
        if parts and index - parts[-1][1] < _JUMP:
            parts[-1] = (parts[-1][0], index + 1)
        else:
            parts.append((index, index + 1))
    return parts


def _cells(spans: Line) -> list[tuple[str, str]] | None:
    """Character and role of every cell; None where a character has another width than one cell."""
    text = "".join(span.text for span in spans)
    if cell_len(text) != len(text):
        return None
    return [(character, span.role) for span in spans for character in span.text]


class LinesWidget(Widget):
    """Shows ``view(state, width, height)``. ``repainted`` counts lines drawn anew since the start."""

    DEFAULT_CSS = "LinesWidget { position: absolute; }"

    def __init__(self, name: str, view: View) -> None:
        super().__init__(id=name)
        self._view = view
        self._state = ViewState()
        self._lines: list[Line] = []
        self._drawn: tuple[int, int, str] = (0, 0, "")
        self.repainted = 0

    def show(self, state: ViewState) -> None:
        """Draw the state: only cells of rows that differ are painted again."""
        self._state = state
        width, height = self.size.width, self.size.height
        if width <= 0 or height <= 0:
            return
        lines = self._view(state, width, height)
        if state.glyphs is ASCII:
            lines = [in_ascii(item) for item in lines]
        drawn = (width, height, state.look)
        if drawn != self._drawn or len(lines) != len(self._lines):
            self._lines, self._drawn = lines, drawn
            self.repainted += len(lines)
            self.refresh()
            return
        changed = [
            (row, parts)
            for row, (old, new) in enumerate(zip(self._lines, lines, strict=True))
            if (parts := changed_cells(old, new))
        ]
        self._lines = lines
        self.repainted += len(changed)
        if changed:
            regions = [Region(start, row, end - start, 1) for row, parts in changed for start, end in parts]
            self.refresh(*regions)

    def on_resize(self) -> None:
        self.show(self._state)

    @property
    def lines(self) -> list[Line]:
        return self._lines

    def render_line(self, y: int) -> Strip:
        look = self._state.look
        if y >= len(self._lines):
            return Strip.blank(self.size.width, style_of("text", look))
        return Strip([Segment(span.text, style_of(span.role, look)) for span in self._lines[y] if span.text])
