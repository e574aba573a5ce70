"""The settings file, read leniently to be shown and changed one key at a time.

A change touches the one line of its key; every other byte stays: comments, keys this program does not know, line
ends. The changed text is parsed before it is written, and what would mean anything else is refused.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
import stat
import tempfile
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orkbench_tui.errors import InvalidFileError, OrkError, UsageError
from orkbench_tui.own_files import own_file_error
from orkbench_tui.settings import Settings, allowed_words, checked_setting, setting_from_text
from orkbench_tui.user_files import read_text_bounded

__all__ = ["SettingRow", "SettingsPicture", "changed_text", "read_settings", "save_setting", "toml_value"]

_MAX_FILE_BYTES = 1 << 20
_BY_HAND = "change it there with an editor"


@dataclass(frozen=True, slots=True)
class SettingRow:
    """``value`` is in force (what stands there, as text, where ``fault`` says it is wrong); ``origin`` is default,
    file or environment; ``in_file`` tells whether the file has the key."""

    name: str
    value: Any
    origin: str
    default: Any
    in_file: bool
    doc: str
    allowed: str
    choices: tuple[str, ...] = ()
    fault: str = ""


@dataclass(frozen=True, slots=True)
class SettingsPicture:
    """``unknown`` are keys of the file that set nothing; ``fault`` is why it cannot be read as a whole."""

    path: Path
    there: bool
    rows: tuple[SettingRow, ...]
    unknown: tuple[str, ...] = ()
    fault: str = ""

    @property
    def refused(self) -> bool:
        """Whether every command refuses to start with what file and environment say."""
        return bool(self.fault or self.unknown or any(row.fault for row in self.rows))


def read_settings(path: Path, environment: Mapping[str, str]) -> SettingsPicture:
    """Every setting with its value and where that is from. Nothing in the file makes this fail."""
    there = os.path.lexists(path)
    table: dict[str, Any] = {}
    fault = ""
    if there:
        try:
            table = _parsed(_text(path), path)
        except OrkError as error:
            fault = f"{error.what}: {error.why}" if error.why else error.what
    names = [field.name for field in dataclasses.fields(Settings)]
    rows = tuple(_row(name, table, path, environment) for name in names)
    return SettingsPicture(path, there, rows, tuple(key for key in table if key not in names), fault)


def _row(name: str, table: Mapping[str, Any], path: Path, environment: Mapping[str, str]) -> SettingRow:
    field = next(item for item in dataclasses.fields(Settings) if item.name == name)
    value, origin, fault = field.default, "default", ""
    if name in table:
        value, origin = table[name], "file"
        try:
            value = checked_setting(name, value, path.name)
        except UsageError as error:
            fault = error.why or error.what
    variable = f"ORK_{name.upper()}"
    if variable in environment:
        value, origin = environment[variable], "environment"
        try:
            value = setting_from_text(name, environment[variable], variable)
            # The file is read first and must be right even where it is overruled.
            fault = f"in the file: {fault}" if fault else ""
        except UsageError as error:
            fault = error.why or error.what
    return SettingRow(
        name,
        value,
        origin,
        field.default,
        name in table,
        field.metadata["doc"],
        allowed_words(name),
        field.metadata["choices"],
        fault,
    )


def _text(path: Path) -> str:
    return read_text_bounded(path, _MAX_FILE_BYTES, "settings file", do="fix or remove it")


def _parsed(text: str, path: Path | str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise InvalidFileError(f"{path} is no TOML", why=str(error), do=_BY_HAND) from error


def toml_value(value: Any) -> str:
    """A setting's value as TOML. JSON's strings are TOML's, but for the one character TOML wants escaped too."""
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return repr(value)


def changed_text(text: str, name: str, value: Any | None) -> str:
    """``text`` with one setting given a value, or with None removed. A comment behind a value stays.

    Raises:
        InvalidFileError: the text is no TOML, or the key is written in a form one line does not hold.
    """
    before = _parsed(text, "the settings file")
    wanted = {key: item for key, item in before.items() if key != name}
    if value is not None:
        wanted[name] = value
    after = _edited(text, name, value, name in before)
    try:
        same = tomllib.loads(after) == wanted
    except tomllib.TOMLDecodeError:
        same = False
    if not same:
        raise InvalidFileError(
            f"{name} cannot be changed here", why="the file writes it over several lines", do=_BY_HAND
        )
    return after


def _edited(text: str, name: str, value: Any | None, there: bool) -> str:
    lines = text.splitlines(keepends=True)
    end = "\r\n" if text.count("\r\n") * 2 > text.count("\n") else "\n"
    pattern = re.compile(
        rf"""(\s*(?:{name}|"{name}"|'{name}')\s*=\s*)"""
        r"""("(?:[^"\\]|\\.)*"|'[^']*'|[^\s#'"\[{][^#\r\n]*?)([ \t]*)(#[^\r\n]*)?(\r?\n?)"""
    )
    for number, line in enumerate(lines):
        if not there or (found := pattern.fullmatch(line)) is None:
            continue
        head, _, gap, comment, ending = found.groups()
        if value is not None:
            lines[number] = f"{head}{toml_value(value)}{gap}{comment or ''}{ending}"
        else:
            lines[number] = f"{comment}{ending}" if comment else ""
        return "".join(lines)
    if there or value is None:
        return text
    # A key behind the head of a table would be one of the table's.
    place = next((n for n, line in enumerate(lines) if line.lstrip().startswith("[")), len(lines))
    if place and not lines[place - 1].endswith("\n"):
        lines[place - 1] += end
    return "".join([*lines[:place], f"{name} = {toml_value(value)}{end}", *lines[place:]])


def save_setting(path: Path, name: str, value: Any | None) -> None:
    """Write one setting into the file, or with None take it out; the file is replaced as a whole or not at all.

    The file is read anew, so that what somebody else changed meanwhile stays. A link is followed.

    Raises:
        UsageError: the value is outside its range.
        InvalidFileError, DeniedError, NoMemoryError: the file cannot be read, changed or written; it is as it was.
    """
    if value is not None:
        value = checked_setting(name, value, "settings")
    there = os.path.lexists(path)
    before = _text(path) if there and path.exists() else ""
    text = changed_text(before, name, value)
    if text == before:
        return
    place = Path(os.path.realpath(path))
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        _replace(place, text.encode())
    except OSError as error:
        raise own_file_error(error, place, "settings") from error


def _replace(place: Path, content: bytes) -> None:
    handle, name = tempfile.mkstemp(prefix=".config-", dir=place.parent)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
            if place.exists():
                os.fchmod(stream.fileno(), stat.S_IMODE(place.stat().st_mode))
        Path(name).replace(place)
    except BaseException:
        Path(name).unlink()
        raise
