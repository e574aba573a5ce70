"""The bytes a real terminal gets: no colour under NO_COLOR, modes restored, sizes obeyed."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.screens.terminal import ROOT, Terminal

COLOUR = re.compile(rb"(?:3|4|9|10)[0-9]$")


def colours(output: bytes) -> set[bytes]:
    """Select-graphic-rendition sequences that touch colour, foreground or background."""
    found = set(re.findall(rb"\x1b\[([0-9;:]*)m", output))
    return {item for item in found if any(COLOUR.match(part) for part in re.split(rb"[;:]", item))}


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


@pytest.fixture
def on_a_board(tmp_path: Path) -> Iterator[Terminal]:
    terminal = open_app(tmp_path)
    assert terminal.read_until(lambda output: b"core 2" in output)
    yield terminal


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def _until(true: Callable[[], bool]) -> bool:
    end = time.monotonic() + 20
    while not true():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def test_stop_and_go_on_give_the_terminal_back_and_take_it_again(on_a_board: Terminal) -> None:
    terminal = on_a_board
    os.kill(terminal.pid, signal.SIGTSTP)
    assert terminal.read_until(lambda output: b"\x1b[?1049l" in output)
    assert _until(lambda: _state(terminal.pid) == "T")
    terminal.output = b""
    os.kill(terminal.pid, signal.SIGCONT)
    assert terminal.read_until(lambda output: b"\x1b[?1049h" in output and b"core 2" in output)
    terminal.send(b"q")
    assert terminal.finish() == 0


def test_a_terminal_that_went_away_ends_the_program(on_a_board: Terminal) -> None:
    """As when a connection drops: the other end closes, and the kernel sends SIGHUP."""
    on_a_board.hang_up()
    assert _until(lambda: on_a_board.gone())


_STUCK = (
    "import signal, threading; from orkbench_tui.screens.hang_up import end_with_terminal; "
    "signal.signal(signal.SIGHUP, signal.SIG_IGN); end_with_terminal(0); print('ready', flush=True); "
    "threading.Event().wait()"
)


def test_a_program_that_is_stuck_ends_with_its_terminal_all_the_same() -> None:
    """Nothing but the watch can end it: the signal is ignored and the main thread waits for ever."""
    pid, fd = pty.fork()
    if pid == 0:
        os.execv(sys.executable, [sys.executable, "-c", _STUCK])
    said = b""
    while not said.endswith(b"\n"):
        said += os.read(fd, 100)
    time.sleep(0.2)
    os.close(fd)
    ended: list[int] = []

    def gone() -> bool:
        found, status = os.waitpid(pid, os.WNOHANG)
        ended.extend([os.waitstatus_to_exitcode(status)] if found else [])
        return bool(found)

    assert _until(gone) and ended == [129]


def test_streams_that_are_no_terminal_are_refused() -> None:
    words = [sys.executable, "-c", "from orkbench_tui.cli.tui import main; main()"]
    done = subprocess.run(words, input="", capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2 and "ork board status" in done.stderr


def test_plain_pages_read_words_and_print_lines() -> None:
    words = [
        sys.executable,
        "-c",
        "from orkbench_tui.cli.tui import main; main()",
        "--plain",
        "--target",
        "sim",
    ]
    asked = "2\ndom\nlog\n5\nmodels\nchat\n?\nnowhere\nq\n"
    done = subprocess.run(words, input=asked, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    text = done.stdout
    for needed in (
        "Page dashboard.",
        "Page cores.",
        "NPU core 2: 0 percent",
        "Page domains.",
        "Page log.",
        "governors performance: set clock governors, can be undone",
        "model smollm2-135m-instruct: not here",
        "ork run chat",
        "no page",
    ):
        assert needed in text, needed
    assert not any(mark in text for mark in "│─▶█▁\x1b")


def test_a_quiet_board_costs_the_clock_alone(on_a_board: Terminal) -> None:
    """Plots full of the same figures, nothing happens: what is left to send is the time of the sample."""
    terminal = on_a_board
    terminal.send(b"3")
    assert terminal.read_until(lambda output: b"IOVA domains" in output)
    terminal.read_until(lambda _: False, 1.0)
    terminal.output = b""
    assert terminal.read_until(lambda output: output.count(b"\x1b[1;79H") >= 2)
    # The clock's cells came twice and its line's beginning never: Textual by itself sends the whole line.
    assert b"rock-5b" not in terminal.output and b"IOVA" not in terminal.output
    terminal.send(b"q")
    assert terminal.finish() == 0
