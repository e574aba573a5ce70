"""A terminal that does not echo while an answer streams, so that what is typed meanwhile waits for the prompt."""

from __future__ import annotations

import os
import signal
import sys
import termios
import threading
from types import FrameType, TracebackType
from typing import Any

__all__ = ["QuietTerminal"]

_LOCAL_FLAGS = 3


class QuietTerminal:
    """In its block the terminal on ``fd`` neither echoes nor edits lines; signal keys still work.

    The old modes come back on every way out, and while the program is suspended with Ctrl-Z. Does nothing
    where ``fd`` is no terminal.
    """

    def __init__(self, fd: int | None = None) -> None:
        self._fd = _standard_input() if fd is None else fd
        self._before: list[Any] | None = None
        self._suspend_before: Any = None

    def __enter__(self) -> QuietTerminal:
        try:
            self._before = termios.tcgetattr(self._fd)
        except (termios.error, ValueError):
            return self
        if threading.current_thread() is threading.main_thread():
            self._suspend_before = signal.signal(signal.SIGTSTP, self._suspend)
        self._silence()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._restore()
        self._before = None
        if self._suspend_before is not None:
            signal.signal(signal.SIGTSTP, self._suspend_before)
            self._suspend_before = None

    def _silence(self) -> None:
        if self._before is None:
            return
        quiet = [*self._before]
        quiet[_LOCAL_FLAGS] &= ~(termios.ECHO | termios.ICANON)
        self._set(quiet)

    def _restore(self) -> None:
        if self._before is not None:
            self._set(self._before)

    def _set(self, modes: list[Any]) -> None:
        # TCSANOW leaves what was typed ahead in the queue. A program in the background would be stopped for
        # setting the terminal, and one that hung up cannot be set.
        try:
            if os.tcgetpgrp(self._fd) != os.getpgrp():
                return
            termios.tcsetattr(self._fd, termios.TCSANOW, modes)
        except (termios.error, OSError):
            return

    def _suspend(self, number: int, frame: FrameType | None) -> None:
        self._restore()
        signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTSTP)
        # Here again after `fg`.
        signal.signal(signal.SIGTSTP, self._suspend)
        self._silence()


def _standard_input() -> int:
    try:
        return sys.stdin.fileno()
    except (AttributeError, ValueError, OSError):
        return -1
