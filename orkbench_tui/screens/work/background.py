"""Work off the screen's thread. A thread of ours only posts; the screen's thread alone touches widgets.

The threads are daemons: leaving the program never waits for them. What must not be torn in the middle (a guarded
operation) has a journal, and leaving asks first.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeVar

from textual.message import Message

from orkbench_tui.errors import OrkError
from orkbench_tui.plain_text import one_line

__all__ = ["Call", "Post", "ended", "failure_line", "start"]

T = TypeVar("T")
F = TypeVar("F")
Post = Callable[[Callable[[], None]], None]
"""Has something called on the screen's thread, in order."""


class Call(Message):
    """Something to be called on the screen's thread."""

    def __init__(self, call: Callable[[], None]) -> None:
        super().__init__()
        self.call = call


def start(name: str, work: Callable[[], Any]) -> threading.Thread:
    thread = threading.Thread(target=work, name=name, daemon=True)
    thread.start()
    return thread


def ended(work: Callable[[], T], failed: Callable[[str], F]) -> T | F:
    """What ``work`` gives, or ``failed`` of the line that says why it did not: a screen learns how it ended, whatever it was."""
    try:
        return work()
    except Exception as error:  # noqa: BLE001 - see above
        return failed(failure_line(error))


def failure_line(error: BaseException) -> str:
    """Any failure as the one line a screen shows."""
    if isinstance(error, OrkError):
        return one_line(error.line(), 1000)
    if isinstance(error, MemoryError):
        return "not enough memory; close other programs, or choose a smaller model"
    if isinstance(error, OSError):
        return one_line(
            f"{error.strerror or error}" + (f": {error.filename}" if error.filename else ""), 1000
        )
    return one_line(f"{type(error).__name__}: {error}; this is a defect", 1000)
