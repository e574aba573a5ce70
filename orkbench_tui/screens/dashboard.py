"""The dashboard: panels placed by the pure layout, redrawn from one state."""

from __future__ import annotations

from collections.abc import Iterator

from textual import events
from textual.geometry import Offset
from textual.screen import Screen

from orkbench_tui.screens.layout import Box, Shape, arrange, shape_of
from orkbench_tui.screens.text_line import Line, dimmed
from orkbench_tui.screens.view_state import ViewState
from orkbench_tui.screens.views.board import board_panel
from orkbench_tui.screens.views.compact import compact_lines
from orkbench_tui.screens.views.cpu import cpu_panel
from orkbench_tui.screens.views.frame import footer_line, header_line, too_small
from orkbench_tui.screens.views.log import log_panel
from orkbench_tui.screens.views.npu import npu_panel
from orkbench_tui.screens.views.users import users_panel
from orkbench_tui.screens.widgets.cell_updates import CellCompositor
from orkbench_tui.screens.widgets.lines import LinesWidget, View

__all__ = ["Dashboard"]


def _header(state: ViewState, width: int, height: int) -> list[Line]:
    return [header_line(state, width)]


def _footer(state: ViewState, width: int, height: int) -> list[Line]:
    return [footer_line(state, width)]


def _small(state: ViewState, width: int, height: int) -> list[Line]:
    return too_small(width, height)


def _old(view: View) -> View:
    """``view``, dimmed while its figures are old: no board, or no fresh sample."""

    def shown(state: ViewState, width: int, height: int) -> list[Line]:
        lines = view(state, width, height)
        if state.lost or state.stale:
            return [dimmed(item) for item in lines]
        return lines

    return shown


PANELS: dict[str, View] = {
    "header": _header,
    "npu": _old(npu_panel),
    "cpu": _old(cpu_panel),
    "board": _old(board_panel),
    "users": _old(users_panel),
    "log": _old(log_panel),
    "compact": _old(compact_lines),
    "footer": _footer,
    "small": _small,
}


class Dashboard(Screen[None]):
    """Shows the app's state; every panel is one LinesWidget."""

    def __init__(self) -> None:
        super().__init__()
        self._compositor = CellCompositor()
        self._panels = {name: LinesWidget(name, view) for name, view in PANELS.items()}
        self._placed: tuple[int, int, int] = (0, 0, 0)
        self._state = ViewState()

    def compose(self) -> Iterator[LinesWidget]:
        yield from self._panels.values()

    def on_mount(self) -> None:
        self._place(self.app.size.width, self.app.size.height)

    def on_resize(self, event: events.Resize) -> None:
        self._place(event.size.width, event.size.height)

    def show(self, state: ViewState) -> None:
        self._state = state
        self._place(self.app.size.width, self.app.size.height)
        for panel in self._panels.values():
            if panel.display:
                panel.show(state)

    def _place(self, width: int, height: int) -> None:
        cores = len(self._state.sample.npu.cores) if self._state.sample else 3
        if (width, height, cores) == self._placed or width <= 0 or height <= 0:
            return
        self._placed = (width, height, cores)
        boxes = arrange(width, height, cores)
        for name, panel in self._panels.items():
            box = boxes.get(name)
            panel.display = box is not None
            if box is not None:
                _put(panel, box)

    @property
    def shape(self) -> Shape:
        return shape_of(self.app.size.width, self.app.size.height)


def _put(panel: LinesWidget, box: Box) -> None:
    panel.styles.width = box.width
    panel.styles.height = box.height
    panel.styles.offset = Offset(box.x, box.y)
