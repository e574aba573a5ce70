"""The command palette: every page and key, found by typing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from textual import events

from orkbench_tui.screens.entry_line import Entry
from orkbench_tui.screens.keys import PAGES, keys_for
from orkbench_tui.screens.listing import first_shown, moved
from orkbench_tui.screens.page import Page
from orkbench_tui.screens.text_line import Line, Span, fit, line, plain
from orkbench_tui.screens.view_state import ViewState
from orkbench_tui.screens.views.operations import CHOICES
from orkbench_tui.screens.views.section import title

__all__ = ["Command", "PaletteScreen", "commands_for", "found"]


@dataclass(frozen=True, slots=True)
class Command:
    """``action`` is Textual's; ``twin`` the command line that does the same, "" where there is none."""

    label: str
    key: str
    help: str
    action: str
    twin: str = ""
    where: str = "everywhere"


def commands_for(where: str) -> tuple[Command, ...]:
    """What can be done from the page ``where``: its own keys, then pages, operations and the rest."""
    own = [Command(key.label, key.shown, key.help, key.action, where=where) for key in keys_for(where)]
    pages = [
        Command(f"go to {page.title}", page.key, page.help, f"show_page('{page.name}')", page.command)
        for page in PAGES
    ]
    operations = [
        Command(
            f"plan {choice.label}",
            "",
            choice.operation.title,
            f"plan_operation({index})",
            choice.command,
        )
        for index, choice in enumerate(CHOICES)
    ]
    known = {command.action for command in pages}
    rest = [
        Command(key.label, key.shown, key.help, key.action)
        for key in keys_for("everywhere")
        if key.action not in known and key.action not in ("palette", "go_back") and key.keys != "ctrl+c"
    ]
    return (*own, *pages, *operations, *rest)


def found(commands: Sequence[Command], text: str) -> tuple[Command, ...]:
    """Commands that hold every word of ``text``, those whose label begins with it first."""
    words = text.lower().split()
    hits = [c for c in commands if all(word in f"{c.label} {c.help} {c.twin}".lower() for word in words)]
    return tuple(sorted(hits, key=lambda c: not c.label.lower().startswith(text.lower().strip())))


class PaletteScreen(Page):
    """Opened over a page; enter runs the chosen command there. The app does the running."""

    where = "palette"

    def __init__(self, run: Callable[[Command], None]) -> None:
        super().__init__()
        self._run = run
        self._commands: tuple[Command, ...] = ()
        self._chosen = 0

    def opened_from(self, where: str) -> None:
        self._commands, self._chosen = commands_for(where), 0
        self.prompt, self.entry = " : ", Entry()

    def _hits(self) -> tuple[Command, ...]:
        return found(self._commands, self.entry.text if self.entry else "")

    def lines(self, state: ViewState, width: int, height: int) -> list[Line]:
        hits = self._hits()
        right = line((f"{len(hits)} of {len(self._commands)}", "dim"))
        lines = [title("Commands", right, width, state.glyphs)]
        self._chosen = moved(self._chosen, 0, len(hits))
        room = max(1, height - 1)
        start = first_shown(self._chosen, len(hits), room)
        for index, command in enumerate(hits[start : start + room], start):
            row = line(
                (f" {command.key:>6} ", "key"), (f"{command.label:<28} ", "value"), (command.help, "dim")
            )
            if command.twin and width >= 110:
                row = (*fit(row, width - 36, state.glyphs.cut), Span(f" {command.twin}", "text"))
            if index == self._chosen:
                row = fit(
                    (Span(state.glyphs.cursor + plain(row)[1:], "cursor"),), width, state.glyphs.cut, "cursor"
                )
            lines.append(row)
        if not hits:
            lines.append(line((" no command with these words", "dim")))
        return lines

    async def on_key(self, event: events.Key) -> None:
        if event.key in ("up", "down", "pageup", "pagedown", "ctrl+p", "ctrl+n"):
            event.stop()
            event.prevent_default()
            steps = {"up": -1, "down": 1, "pageup": -10, "pagedown": 10, "ctrl+p": -1, "ctrl+n": 1}
            self._chosen = moved(self._chosen, steps[event.key], len(self._hits()))
            self.redraw()
            return
        if event.key == "enter":
            event.stop()
            event.prevent_default()
            if hits := self._hits():
                self._run(hits[self._chosen])
            return
        if event.key == "escape":
            event.stop()
            event.prevent_default()
            self.app.pop_screen()
            return
        before = self.entry
        await super().on_key(event)
        if self.entry != before:
            self._chosen = 0
            self.redraw()
