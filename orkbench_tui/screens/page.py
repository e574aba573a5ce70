"""What pages share: one drawing widget, a header, a footer of keys, and a line that may be typed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from rich.cells import cell_len
from textual import events
from textual.binding import Binding, BindingType
from textual.screen import Screen

from orkbench_tui.screens.entry_line import Entry, draw_entry, pasted, typed
from orkbench_tui.screens.keys import keys_for
from orkbench_tui.screens.layout import COMPACT
from orkbench_tui.screens.text_line import Line, Span, dimmed, fit
from orkbench_tui.screens.view_state import ViewState
from orkbench_tui.screens.views.frame import header_line, page_footer, too_small
from orkbench_tui.screens.widgets.cell_updates import CellCompositor
from orkbench_tui.screens.widgets.lines import LinesWidget

__all__ = ["Page", "bindings_for"]

_LEAVE_LINE = "esc leaves this line "
_TYPING_ROOM = 24


def bindings_for(where: str) -> list[BindingType]:
    """Textual's bindings of the keys of a page."""
    return [Binding(key.keys, key.action, key.label, show=False) for key in keys_for(where)]


class Page(Screen[None]):
    """A full-screen page drawn as lines. Subclasses give ``lines``.

    While ``entry`` is not None every key goes into it; ``prompt`` stands before it.
    """

    where: ClassVar[str] = ""
    live: ClassVar[bool] = False
    """Whether the page shows the sample, which is dim while it is old."""

    def __init__(self) -> None:
        super().__init__()
        self._compositor = CellCompositor()
        self.body = LinesWidget(f"{self.where}-page", self._framed)
        self.body.styles.width = "100%"
        self.body.styles.height = "100%"
        self.state = ViewState()
        self.entry: Entry | None = None
        self.prompt = " > "
        self._own_actions = {name: key.action for key in keys_for(self.where) for name in key.keys.split(",")}

    def compose(self) -> Iterator[LinesWidget]:
        yield self.body

    def show(self, state: ViewState) -> None:
        self.state = state
        self.body.show(state)

    def redraw(self) -> None:
        self.body.show(self.state)

    # what subclasses give

    def opened_from(self, where: str) -> None:
        """The page is about to be shown, over the page ``where``."""

    def lines(self, state: ViewState, width: int, height: int) -> list[Line]:
        """The page without header and footer: at most ``height`` lines."""
        return []

    def said(self) -> str:
        """What must be said in the last line instead of the keys; "" for nothing."""
        return ""

    def entered(self, text: str) -> None:
        """The typed line was accepted; it is closed already."""

    def abandoned(self) -> None:
        """The typed line was left without accepting it."""

    def other_key(self, key: str) -> bool:
        """A key of the typed line that the line does not know; True when it was used."""
        return False

    # drawing

    def _framed(self, state: ViewState, width: int, height: int) -> list[Line]:
        if width < COMPACT[0] or height < COMPACT[1]:
            return too_small(width, height)
        body = self.lines(state, width, height - 2)[: height - 2]
        body += [()] * (height - 2 - len(body))
        if self.live and (state.lost or state.stale):
            body = [dimmed(item) for item in body]
        if self.entry is not None:
            last = _entry_line(self.prompt, self.entry, width)
        else:
            last = page_footer(state, self.where, self.said(), width)
        return [fit(item, width, state.glyphs.cut) for item in (header_line(state, width), *body, last)]

    @property
    def room(self) -> int:
        """Rows of the page's body."""
        return max(1, self.size.height - 2)

    # the typed line

    def edit(self, prompt: str, text: str = "") -> None:
        self.prompt, self.entry = prompt, Entry.of(text)
        self.redraw()

    async def on_key(self, event: events.Key) -> None:
        if event.key == "ctrl+c":
            return
        if self.entry is None:
            # Bindings run on the app's queue; a line that one opens would miss keys that came in the same read.
            if (action := self._own_actions.get(event.key)) is not None:
                event.stop()
                event.prevent_default()
                await self.run_action(action)
            return
        event.stop()
        event.prevent_default()
        if event.key == "enter":
            text, self.entry = self.entry.text, None
            self.entered(text)
        elif event.key == "escape":
            self.entry = None
            self.abandoned()
        elif (after := typed(self.entry, event.key, event.character)) is not None:
            self.entry = after
        else:
            self.other_key(event.key)
        self.redraw()

    def on_mouse_scroll_down(self) -> None:
        self._scrolled(1)

    def on_mouse_scroll_up(self) -> None:
        self._scrolled(-1)

    def _scrolled(self, step: int) -> None:
        """The wheel, where the mouse was asked for, does what the arrow keys do."""
        name = "action_scroll" if hasattr(self, "action_scroll") else "action_move"
        if (move := getattr(self, name, None)) is not None:
            move(step)

    def on_paste(self, event: events.Paste) -> None:
        if self.entry is not None:
            event.stop()
            self.entry = pasted(self.entry, event.text)
            self.redraw()


def _entry_line(prompt: str, entry: Entry, width: int) -> Line:
    """The typed line; while it is empty it says how to leave it, for keys are text there."""
    if entry.text or "esc" in prompt or width < cell_len(prompt) + len(_LEAVE_LINE) + _TYPING_ROOM:
        return draw_entry(prompt, entry, width)
    return (*draw_entry(prompt, entry, width - len(_LEAVE_LINE)), Span(_LEAVE_LINE, "dim"))
