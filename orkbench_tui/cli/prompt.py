"""The line a question is typed on: line editing, pastes of several lines, and a history that outlives the program."""

from __future__ import annotations

import importlib
import json
import os
import select
import stat
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from orkbench_tui.errors import OrkError, UsageError
from orkbench_tui.user_files import open_regular

__all__ = ["Prompt"]

HISTORY_ENTRIES = 1000
HISTORY_BYTES = 16 << 20
# A paste arrives at once, a typist does not: what waits this long after Enter belongs to the line before.
_PASTE_GAP_S = 0.02


class Prompt:
    """Reads lines from the terminal, with the interpreter's line editor where it has one.

    GNU readline takes a bracketed paste as one text with its line ends; it switches the terminal's paste mode
    on for a prompt and off after it, whatever ends the prompt. ``history`` is the file questions are kept in,
    None for this run alone.
    """

    def __init__(self, history: Path | None = None) -> None:
        self._history = history
        self._editor = _line_editor()
        self._last = ""
        if self._editor is not None:
            self._editor.set_auto_history(False)
            for entry in _load(history):
                self._editor.add_history(entry)

    def read(self, prompt: str) -> str:
        """One line, or several that were pasted together.

        Raises:
            EOFError: Ctrl-D at an empty line.
            KeyboardInterrupt: Ctrl-C; ``abandoned`` is what had been typed.
            UsageError: the line is not UTF-8 text.
        """
        try:
            line = input(prompt)
            line.encode("utf-8")
        except UnicodeError as error:
            place = error.start if isinstance(error, UnicodeDecodeError | UnicodeEncodeError) else 0
            raise UsageError(
                "the line is not UTF-8 text", why=f"character {place}", do="type it again"
            ) from None
        return line

    def abandoned(self) -> str:
        """What was on the line when Ctrl-C ended it; "" where the editor does not tell."""
        return str(self._editor.get_line_buffer()) if self._editor is not None else ""

    def more_waiting(self) -> bool:
        """Whether more lines arrived together with the last one, as an unbracketed paste does."""
        try:
            return bool(select.select([sys.stdin.fileno()], [], [], _PASTE_GAP_S)[0])
        except (OSError, ValueError):
            return False

    def remember(self, text: str) -> None:
        """Keep a question or command for the arrow keys, and in the history file."""
        if text == self._last:
            return
        self._last = text
        if self._editor is not None:
            self._editor.add_history(text)
        if self._history is not None:
            # A full disk costs the history, not the conversation.
            with suppress(OSError):
                _append(self._history, text)


def _line_editor() -> Any:
    try:
        editor = importlib.import_module("readline")
    except ImportError:
        return None
    # Each has settings the other would print as unknown. GNU readline searches with Ctrl-R as it is.
    if "libedit" in (editor.__doc__ or ""):
        editor.parse_and_bind("bind ^R em-inc-search-prev")
    elif os.environ.get("TERM", "dumb") != "dumb":
        editor.parse_and_bind("set enable-bracketed-paste on")
    return editor


def _load(path: Path | None) -> list[str]:
    """The newest entries of a regular file; each is a JSON string on a line of its own, so that entries may have several lines."""
    if path is None:
        return []
    try:
        with open_regular(path, "chat history") as file:
            # The newest entries are at the end; a line cut in two by this is no JSON and passed over.
            over = max(os.fstat(file.fileno()).st_size - HISTORY_BYTES, 0)
            file.seek(over)
            lines = file.read(HISTORY_BYTES).decode("utf-8", "replace").splitlines()
    except (OSError, OrkError):
        return []
    if over or len(lines) > 2 * HISTORY_ENTRIES:
        lines = lines[-HISTORY_ENTRIES:]
        with suppress(OSError):
            _replace(path, lines)
    entries = []
    for line in lines[-HISTORY_ENTRIES:]:
        with suppress(ValueError):
            entry = json.loads(line)
            if isinstance(entry, str) and "\0" not in entry:
                entries.append(entry)
    return entries


def _append(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    # Questions are nobody else's business. A pipe in the file's place must not hold the chat up.
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK
    handle = os.open(path, flags, 0o600)
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            return
        os.write(handle, (json.dumps(text) + "\n").encode())
    finally:
        os.close(handle)


def _replace(path: Path, lines: list[str]) -> None:
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
    temporary.replace(path)
