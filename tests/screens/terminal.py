"""A program on a pseudo terminal, for tests and measurements of what a terminal gets."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import termios
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[2]


class Terminal:
    """A program on a pseudo terminal."""

    def __init__(
        self, argv: list[str], environment: dict[str, str], rows: int = 24, columns: int = 80
    ) -> None:
        self.output = b""
        self.pid, self._fd = pty.fork()
        if self.pid == 0:
            os.chdir(ROOT)
            os.execve(argv[0], argv, environment)
        self.resize(rows, columns)

    def resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self._fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def send(self, keys: bytes) -> None:
        os.write(self._fd, keys)

    def hang_up(self) -> None:
        """Close our end; the program gets SIGHUP."""
        os.close(self._fd)

    def gone(self) -> bool:
        """Whether the program has ended; after ``hang_up``, where nothing can be read any more."""
        pid, _ = os.waitpid(self.pid, os.WNOHANG)
        return pid != 0

    def read_until(self, ready: Callable[[bytes], object], seconds: float = 30) -> bool:
        end = time.monotonic() + seconds
        while not ready(self.output):
            if time.monotonic() > end:
                return False
            if select.select([self._fd], [], [], 0.1)[0]:
                try:
                    data = os.read(self._fd, 65536)
                except OSError:
                    return bool(ready(self.output))
                self.output += data
        return True

    def finish(self, seconds: float = 20) -> int:
        """Read to the end and give the exit code; the program is killed when it does not end."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.read_until(lambda _: False, 0.1)
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                os.close(self._fd)
                return os.waitstatus_to_exitcode(status)
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self._fd)
        raise AssertionError("did not end")
