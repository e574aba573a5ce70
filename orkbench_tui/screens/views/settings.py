"""Every setting: value, where it comes from, its range and meaning; one of them chosen."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

from orkbench_tui.screens.listing import first_shown
from orkbench_tui.screens.text_line import Line, Span, fit, foreign, line, plain
from orkbench_tui.screens.view_state import ViewState
from orkbench_tui.screens.views.section import title
from orkbench_tui.settings import nearest_setting
from orkbench_tui.settings_file import SettingRow, SettingsPicture

__all__ = ["settings_lines", "settings_spoken", "value_text"]

_RUNS_PROGRAMS = frozenset({"alert_command", "power_command", "remote_ork"})
_NAME = 20


def value_text(value: Any) -> str:
    """A value as it is shown: texts in quotes, so that an empty one can be seen."""
    return f'"{foreign(value)}"' if isinstance(value, str) else foreign(str(value))


def settings_lines(
    picture: SettingsPicture,
    chosen: int,
    warnings: Sequence[str],
    state: ViewState,
    width: int,
    height: int,
) -> list[Line]:
    """``warnings`` are variables of the environment that look like settings and set nothing."""
    glyphs = state.glyphs
    rows = picture.rows
    right = line((_set(picture), "error" if picture.fault else "dim"))
    lines = [title("Settings", right, width, glyphs)]
    trouble = [
        line((f" {'  ' if number else f'{glyphs.severity[3]} '}{part}", role))
        for text, role in _trouble(picture, warnings)
        for number, part in enumerate(textwrap.wrap(foreign(text), width - 4))
    ]
    shown = 5 if height > 16 else 3
    if len(trouble) > shown:
        trouble = [*trouble[: shown - 1], line(("   and more: mend these first", "error"))]
    lines += trouble
    told = _details(rows[chosen], picture)
    details = [line((f" {part}", role)) for text, role in told for part in textwrap.wrap(text, width - 2)]
    details = details[: max(4, height // 2 - 1)]
    room = max(1, height - len(lines) - 1 - len(details))
    start = first_shown(chosen, len(rows), room)
    for index, row in enumerate(rows[start : start + room], start):
        spans = _row(row, state, width)
        if index == chosen:
            spans = fit((Span(glyphs.cursor + plain(spans)[1:], "cursor"),), width, glyphs.cut, "cursor")
        lines.append(spans)
    lines += [()] * (height - len(lines) - 1 - len(details))
    return [*lines, title("Chosen", line((f"{chosen + 1} of {len(rows)}", "dim")), width, glyphs), *details]


def _set(picture: SettingsPicture) -> str:
    own = sum(row.origin != "default" for row in picture.rows)
    if picture.fault:
        # What an unread file sets is not known, so it is no 0.
        return "file not read" + (f", {own} set by the environment" if own else "")
    return f"{own} of {len(picture.rows)} set"


def _trouble(picture: SettingsPicture, warnings: Sequence[str]) -> list[tuple[str, str]]:
    found = []
    if picture.fault:
        found.append((f"{picture.fault}; no command starts until it is mended or removed", "error"))
    found += [
        (f"{_unknown(name)}; no command starts until it is taken out of the file", "error")
        for name in picture.unknown
    ]
    found += [
        (f"{row.name}: {row.fault}; no command starts until it is changed", "error")
        for row in picture.rows
        if row.fault
    ]
    return [*found, *[(text, "warning") for text in warnings]]


def _unknown(name: str) -> str:
    near = nearest_setting(name)
    return f"there is no setting {name}" + (f", perhaps {near} is meant" if near else "")


def _row(row: SettingRow, state: ViewState, width: int) -> Line:
    room = max(12, width - _NAME - 2 - 16)
    role = "error" if row.fault else "text" if row.origin == "default" else "value"
    mark = state.glyphs.severity[4] if row.fault else " "
    return (
        Span(f" {mark}", "error"),
        Span(f"{row.name:<{_NAME}}", "text"),
        *fit((Span(value_text(row.value), role),), room, state.glyphs.cut),
        Span(f"  {row.origin}", "dim" if row.origin == "default" else "notice"),
    )


def _details(row: SettingRow, picture: SettingsPicture) -> list[tuple[str, str]]:
    told = [(f"{row.name} = {value_text(row.value)}", "value"), (row.doc, "text")]
    if row.fault:
        told.append((f"wrong: {row.fault}", "error"))
    told.append((f"allowed: {row.allowed}; default {value_text(row.default)}", "text"))
    if row.name in _RUNS_PROGRAMS:
        told.append(("this runs a program under your name", "warning"))
    where = {
        "default": "the default",
        "file": "the file below",
        "environment": f"ORK_{row.name.upper()} in the environment, which the file does not overrule",
    }[row.origin]
    told.append((f"from {where}", "text"))
    missing = "" if picture.there else " (not there yet; saving makes it)"
    told.append((f"file: {foreign(str(picture.path))}{missing}", "dim"))
    return told


def settings_spoken(picture: SettingsPicture, warnings: Sequence[str]) -> list[str]:
    said = [f"Settings file {foreign(str(picture.path))}{'' if picture.there else ', not there'}."]
    said += [foreign(text) for text, _ in _trouble(picture, warnings)]
    for row in picture.rows:
        said.append(f"{row.name} = {value_text(row.value)}, {row.origin}; {row.doc}; allowed: {row.allowed}")
    return [*said, "To change one, put `name = value` into the file."]
