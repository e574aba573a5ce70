"""The bytes a real terminal gets: no colour under NO_COLOR, modes restored, sizes obeyed."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import time
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
COLOUR = re.compile(rb"(?:3|4|9|10)[0-9]$")


def colours(output: bytes) -> set[bytes]:
    """Select-graphic-rendition sequences that touch colour, foreground or background."""
    found = set(re.findall(rb"\x1b\[([0-9;:]*)m", output))
    return {item for item in found if any(COLOUR.match(part) for part in re.split(rb"[;:]", item))}


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


def open_app(tmp_path: Path, rows: int = 24, columns: int = 80, **extra: str) -> Terminal:
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "TERM": "xterm-256color",
        "COLORTERM": "truecolor",
        "LANG": "C.UTF-8",
        "PYTHONPATH": str(ROOT),
        **extra,
    }
    return Terminal(
        [sys.executable, "-m", "tests.screens.pty_app", str(tmp_path)], environment, rows, columns
    )


@pytest.mark.parametrize("no_colour", [True, False])
def test_no_color_means_no_colour_sequence_at_all(tmp_path: Path, no_colour: bool) -> None:
    terminal = open_app(tmp_path, **({"NO_COLOR": "1"} if no_colour else {}))
    assert terminal.read_until(lambda output: b"irq/s" in output and b"core 2" in output)
    terminal.send(b"l")
    assert terminal.read_until(lambda output: b"Meaning" in output)
    terminal.send(b"q")
    assert terminal.finish() == 0
    assert bool(colours(terminal.output)) is not no_colour
    if no_colour:
        # State stays readable by weight and words.
        assert b"\x1b[1m" in terminal.output or b"\x1b[1;" in terminal.output


def test_the_terminal_is_left_as_it_was(tmp_path: Path) -> None:
    terminal = open_app(tmp_path)
    assert terminal.read_until(lambda output: b"core 2" in output)
    terminal.send(b"q")
    assert terminal.finish() == 0
    assert terminal.output.count(b"\x1b[?1049h") == terminal.output.count(b"\x1b[?1049l") == 1
    assert b"\x1b[?25h" in terminal.output
    assert b"\x1b[?1003h" not in terminal.output and b"\x1b[?1000h" not in terminal.output


def test_resizing_a_live_terminal(tmp_path: Path) -> None:
    terminal = open_app(tmp_path)
    assert terminal.read_until(lambda output: b"core 2" in output)
    terminal.resize(10, 50)
    assert terminal.read_until(lambda output: b"needs 60x15, is 50x10" in output)
    terminal.output = b""
    terminal.resize(15, 60)
    assert terminal.read_until(lambda output: b"2256/2304" in output)
    terminal.output = b""
    terminal.resize(24, 80)
    assert terminal.read_until(lambda output: b"Processes and IOVA domains" in output)
    terminal.send(b"q")
    assert terminal.finish() == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_signals_leave_the_terminal_in_order(tmp_path: Path, number: signal.Signals) -> None:
    code = "from orkbench_tui.cli.tui import main; main()"
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": os.environ["HOME"],
        "XDG_RUNTIME_DIR": os.environ["XDG_RUNTIME_DIR"],
        "TERM": "xterm-256color",
        "LANG": "C.UTF-8",
        "PYTHONPATH": str(ROOT),
    }
    terminal = Terminal([sys.executable, "-c", code, "--target", "sim"], environment)
    assert terminal.read_until(lambda output: b"core 2" in output and b"SIM" in output)
    os.kill(terminal.pid, number)
    assert terminal.finish() == 128 + number
    assert terminal.output.count(b"\x1b[?1049l") == 1
