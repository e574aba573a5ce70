"""The one drawing widget: lines made by a view, repainted only where they changed."""

from __future__ import annotations

from collections.abc import Callable

from rich.segment import Segment
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from orkbench_tui.screens.palette import style_of
from orkbench_tui.screens.text_line import Line
from orkbench_tui.screens.view_state import ViewState

__all__ = ["LinesWidget", "View"]

View = Callable[[ViewState, int, int], list[Line]]


class LinesWidget(Widget):
    """Shows ``view(state, width, height)``. ``repainted`` counts lines drawn anew since the start."""

    DEFAULT_CSS = "LinesWidget { position: absolute; }"

    def __init__(self, name: str, view: View, *, colour: bool) -> None:
        super().__init__(id=name)
        self._view = view
        self._colour = colour
        self._state = ViewState()
        self._lines: list[Line] = []
        self._drawn_size = (0, 0)
        self.repainted = 0

    def show(self, state: ViewState) -> None:
        """Draw the state: only rows that differ are painted again."""
        self._state = state
        if self.size.width <= 0 or self.size.height <= 0:
            return
        size = (self.size.width, self.size.height)
        lines = self._view(state, *size)
        if size != self._drawn_size or len(lines) != len(self._lines):
            self._lines, self._drawn_size = lines, size
            self.repainted += len(lines)
            self.refresh()
            return
        changed = [row for row, (old, new) in enumerate(zip(self._lines, lines, strict=True)) if old != new]
        self._lines = lines
        self.repainted += len(changed)
        if changed:
            self.refresh(*(Region(0, row, size[0], 1) for row in changed))

    def on_resize(self) -> None:
        self.show(self._state)

    @property
    def lines(self) -> list[Line]:
        return self._lines

    def render_line(self, y: int) -> Strip:
        if y >= len(self._lines):
            return Strip.blank(self.size.width, style_of("text", self._colour))
        segments = [
            Segment(span.text, style_of(span.role, self._colour)) for span in self._lines[y] if span.text
        ]
        return Strip(segments)
