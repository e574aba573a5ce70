"""A wait for standard input ends with a signal, even one that came before the wait began."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from typing import Any, BinaryIO

import pytest

from orkbench_tui.cli import input as input_module
from orkbench_tui.cli.input import _signals_heard, standard_lines
from orkbench_tui.errors import UsageError


@pytest.fixture
def silent() -> Iterator[BinaryIO]:
    """An input nobody writes to."""
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb", buffering=0) as stream:
        yield stream
    os.close(writing)


def test_a_signal_that_came_before_the_call_that_blocks_wakes_it(
    silent: BinaryIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in the window between the interpreter's last look for signals and the system call."""
    seen: list[int] = []
    woken: list[list[int]] = []
    select = input_module.select.select

    def watched(*lists: Any) -> tuple[list[int], list[int], list[int]]:
        ready = select(*lists)
        woken.append(ready[0])
        return ready

    monkeypatch.setattr(input_module.select, "select", watched)
    before = signal.signal(signal.SIGUSR1, lambda number, frame: seen.append(number))
    alarm = signal.signal(signal.SIGALRM, lambda number, frame: (_ for _ in ()).throw(TimeoutError()))
    try:
        with _signals_heard(silent) as wait:
            os.kill(os.getpid(), signal.SIGUSR1)
            signal.setitimer(signal.ITIMER_REAL, 0.2)
            # The first signal is taken from the pipe, and the wait goes on; the second one's handler raises.
            with pytest.raises(TimeoutError):
                wait()
        assert seen == [signal.SIGUSR1]
        assert woken[0] and silent.fileno() not in woken[0]
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGUSR1, before)
        signal.signal(signal.SIGALRM, alarm)


@pytest.fixture
def piped(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Standard input is a pipe; where to write to it."""
    reading, writing = os.pipe()
    with os.fdopen(reading, "r") as stream:
        monkeypatch.setattr("sys.stdin", stream)
        yield writing


def test_lines_come_one_by_one_and_the_last_needs_no_end(piped: int) -> None:
    lines = standard_lines(10)
    os.write(piped, b"one\n\ntw")
    assert [next(lines), next(lines)] == [b"one\n", b"\n"]
    os.write(piped, b"o\nlast")
    os.close(piped)
    assert list(lines) == [b"two\n", b"last"]


@pytest.mark.parametrize("end", [b"", b"\n"])
def test_a_line_that_is_too_long_comes_after_those_before_it(piped: int, end: bytes) -> None:
    os.write(piped, b"short\n" + b"x" * 11 + end)
    lines = standard_lines(10)
    assert next(lines) == b"short\n"
    with pytest.raises(UsageError, match="too long"):
        next(lines)
    os.close(piped)


def test_a_non_blocking_input_is_waited_for(piped: int) -> None:
    os.set_blocking(sys.stdin.fileno(), False)
    later = threading.Timer(0.1, lambda: os.write(piped, b"late\n"))
    later.start()
    assert next(standard_lines(10)) == b"late\n"
    later.join()
    os.close(piped)


def test_what_waited_for_wakeups_before_gets_them_again(silent: BinaryIO) -> None:
    heard, told = os.pipe()
    os.set_blocking(told, False)
    before = signal.set_wakeup_fd(told)
    try:
        with _signals_heard(silent):
            pass
        assert signal.set_wakeup_fd(told) == told
    finally:
        signal.set_wakeup_fd(before)
        os.close(heard)
        os.close(told)
