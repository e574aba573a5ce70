"""The chat program on a pseudo-terminal."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import sys
import termios
import time
from collections.abc import Callable
from pathlib import Path

PROGRAM = Path(__file__).with_name("chat_program.py")
ROOT = Path(__file__).parents[2]
WAIT_S = 20.0


def environment(**extra: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm", **extra}


class Terminal:
    """A program on a pseudo-terminal, and what it showed so far."""

    def __init__(self, columns: int = 0, **extra: str) -> None:
        self.shown = ""
        self.pid, self._fd = pty.fork()
        if self.pid == 0:
            words = [sys.executable, str(PROGRAM), "run", "chat", "--temperature", "0"]
            os.execve(sys.executable, words, environment(**extra))
        if columns:
            fcntl.ioctl(self._fd, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))

    def wait_for(self, text: str, times: int = 1) -> None:
        deadline = time.monotonic() + WAIT_S
        while self.shown.count(text) < times:
            assert time.monotonic() < deadline, f"no {text!r} in {self.shown!r}"
            self._read()

    def modes(self) -> int:
        """The terminal's local flags."""
        return int(termios.tcgetattr(self._fd)[3])

    def wait_until(self, holds: Callable[[], bool]) -> None:
        deadline = time.monotonic() + WAIT_S
        while not holds():
            assert time.monotonic() < deadline, f"not so: {self.shown!r}"
            self._read()

    def type(self, text: str) -> None:
        os.write(self._fd, text.encode())

    def press_until(self, key: str, text: str, times: int = 1) -> None:
        """Press ``key`` once, and again where it went unheard.

        The line editor may drop a key that comes while it is still setting up the terminal.
        """
        deadline = time.monotonic() + WAIT_S
        settled = time.monotonic() + 0.2
        while time.monotonic() < settled:
            self._read()
        while self.shown.count(text) < times:
            assert time.monotonic() < deadline, f"no {text!r} in {self.shown!r}"
            self.type(key)
            heard_by = time.monotonic() + 3
            while self.shown.count(text) < times and time.monotonic() < heard_by:
                self._read()

    def code(self, again: Callable[[], None] | None = None) -> int:
        """The exit code, once the program has left; ``again`` repeats what should end it, where it went unheard."""
        deadline = time.monotonic() + WAIT_S
        repeat_at = time.monotonic() + 3
        while True:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.pid = 0
                while self._read():
                    pass
                return os.waitstatus_to_exitcode(status)
            if again is not None and time.monotonic() > repeat_at:
                repeat_at = time.monotonic() + 3
                again()
            assert time.monotonic() < deadline, f"still there: {self.shown!r}"
            self._read()

    def _read(self) -> bool:
        """What came by now or comes soon; whether anything did."""
        if not select.select([self._fd], [], [], 0.1)[0]:
            return False
        try:
            self.shown += os.read(self._fd, 65536).decode(errors="replace")
        except OSError:
            # The other side has closed; Linux reports that as an error.
            time.sleep(0.02)
            return False
        return True

    def close(self) -> None:
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self._fd)
