"""Settings: read from the file and the environment, changed one at a time in a checked line, saved at once."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from orkbench_tui.errors import OrkError, UsageError
from orkbench_tui.plain_text import one_line
from orkbench_tui.screens.entry_line import Entry
from orkbench_tui.screens.listing import moved
from orkbench_tui.screens.page import Page, bindings_for
from orkbench_tui.screens.text_line import Line
from orkbench_tui.screens.view_state import ViewState
from orkbench_tui.screens.views.settings import settings_lines, value_text
from orkbench_tui.settings import setting_from_text
from orkbench_tui.settings_file import SettingRow, read_settings, save_setting
from orkbench_tui.upstream_variables import variable_warnings

__all__ = ["SettingsScreen"]


class SettingsScreen(Page):
    """The file is read each time the page is shown and after each change."""

    where = "settings"
    BINDINGS = bindings_for("settings")

    def __init__(self, path: Path, environment: Mapping[str, str]) -> None:
        super().__init__()
        self._path, self._environment = path, environment
        self._picture = read_settings(path, environment)
        self._warnings = tuple(variable_warnings(environment))
        self._chosen = 0
        self._said = ""
        self._failed = ""

    def on_screen_resume(self) -> None:
        self._read()

    def _read(self) -> None:
        self._picture = read_settings(self._path, self._environment)
        self.redraw()

    @property
    def _row(self) -> SettingRow:
        return self._picture.rows[self._chosen]

    def lines(self, state: ViewState, width: int, height: int) -> list[Line]:
        warnings = (self._failed, *self._warnings) if self._failed else self._warnings
        return settings_lines(self._picture, self._chosen, warnings, state, width, height)

    def said(self) -> str:
        return self._said

    def _say(self, text: str) -> None:
        self._said = one_line(text, 1000)
        self.redraw()

    def action_move(self, step: int) -> None:
        self._said = ""
        self._chosen = moved(self._chosen, step, len(self._picture.rows))
        self.redraw()

    def action_move_page(self, direction: int) -> None:
        self.action_move(direction * max(1, self.room - 10))

    def action_move_end(self, direction: int) -> None:
        self.action_move(direction * 10_000)

    # changing

    def action_change(self) -> None:
        self._failed = ""
        self._read()
        if self._picture.fault:
            self._say("not changed here while the file cannot be read: change it with an editor")
            return
        self._ask("" if self._row.value is None else str(self._row.value))

    def _ask(self, text: str, wrong: str = "") -> None:
        """The line stays open after a wrong value, which is corrected in place."""
        self._said = ""
        self.edit(f" {f'{wrong}; ' if wrong else ''}{self._row.name} = ", text)

    def other_key(self, key: str) -> bool:
        """Up and down go through the choices of a setting that has some."""
        words = self._row.choices
        if key not in ("up", "down") or self.entry is None or not words:
            return False
        here = words.index(self.entry.text) if self.entry.text in words else -1
        self.entry = Entry.of(words[(here + (1 if key == "down" else -1)) % len(words)])
        return True

    def entered(self, text: str) -> None:
        # Here, since it belongs to the engine, which the first picture does not wait for.
        from orkbench_tui.runner.dispatch.setting_conflicts import contradiction

        name = self._row.name
        try:
            value = setting_from_text(name, text.strip(), name)
        except UsageError as error:
            self._ask(text, one_line(error.why or f"no {self._row.allowed.partition(',')[0]}", 40))
            return
        others = {row.name: row.value for row in self._picture.rows if not row.fault}
        if wrong := contradiction({**others, name: value}):
            self._failed = f"{name} = {value_text(value)} is not saved: {wrong}"
            self._ask(text, "refused, see above")
            return
        self._failed = ""
        if value == self._row.value and self._row.in_file:
            self._say(f"{name} stays {value_text(value)}")
        else:
            self._save(name, value)

    def abandoned(self) -> None:
        self._failed = ""
        self._say(f"{self._row.name} was not changed")

    def action_default(self) -> None:
        if not self._row.in_file:
            self._say(f"{self._row.name} is not in the file")
        elif self._picture.fault:
            self._say("not changed here while the file cannot be read: change it with an editor")
        else:
            self._save(self._row.name, None)

    def _save(self, name: str, value: object | None) -> None:
        try:
            save_setting(self._path, name, value)
        except OrkError as error:
            self._failed = one_line(error.line(), 1000)
            self._say("not saved; why stands above")
            return
        self._read()
        done = f"{name} left the file" if value is None else f"saved {name} = {value_text(value)}"
        if self._row.origin == "environment":
            self._say(f"{done}; ORK_{name.upper()} in the environment still overrules it")
        elif self._picture.refused:
            self._say(f"{done}; no command starts yet: see above")
        else:
            self._say(f"{done}; holds for what is started from now on")
