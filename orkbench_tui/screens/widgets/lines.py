"""The one drawing widget: lines made by a view, repainted only where they changed."""

from __future__ import annotations

from collections.abc import Callable
from itertools import zip_longest

from rich.cells import cell_len
from rich.segment import Segment
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from orkbench_tui.screens.palette import style_of
from orkbench_tui.screens.text_line import Line
from orkbench_tui.screens.view_state import ViewState

__all__ = ["LinesWidget", "View", "changed_cells"]

View = Callable[[ViewState, int, int], list[Line]]


def changed_cells(old: Line, new: Line) -> tuple[int, int] | None:
    """First and end cell of what differs between two lines of one width; None for nothing."""
    if old == new:
        return None
    start = 0
    for before, after in zip_longest(old, new):
        if before != after:
            break
        start += cell_len(before.text)
    tail = 0
    for before, after in zip(reversed(old), reversed(new), strict=False):
        if before != after:
            break
        tail += cell_len(before.text)
    width = sum(cell_len(span.text) for span in new)
    return start, max(width - tail, start + 1)


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
        drawn = (width, height, state.look)
        if drawn != self._drawn or len(lines) != len(self._lines):
            self._lines, self._drawn = lines, drawn
            self.repainted += len(lines)
            self.refresh()
            return
        changed = [
            (row, cells)
            for row, (old, new) in enumerate(zip(self._lines, lines, strict=True))
            if (cells := changed_cells(old, new)) is not None
        ]
        self._lines = lines
        self.repainted += len(changed)
        if changed:
            self.refresh(*(Region(start, row, end - start, 1) for row, (start, end) in changed))

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
