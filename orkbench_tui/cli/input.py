"""What comes in on standard input, with a limit."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from typing import BinaryIO, cast

from orkbench_tui.errors import InvalidFileError, UsageError
from orkbench_tui.user_files import decoded, mebibytes, read_bounded

__all__ = [
    "LOG_BYTES",
    "PROMPT_BYTES",
    "TEXT_BYTES",
    "standard_bytes",
    "standard_input",
    "standard_lines",
    "stdin_is_terminal",
    "typed_line",
]

PROMPT_BYTES = 4 << 20
"""A question or a text to continue; the longest context takes less."""
TEXT_BYTES = 64 << 20
"""A text to measure or cut into tokens."""
LOG_BYTES = 64 << 20
"""A saved kernel log; a board keeps at most a few MiB."""


_NAME = "standard input"
_PIECE_BYTES = 64 << 10


def stdin_is_terminal() -> bool:
    return sys.stdin is not None and sys.stdin.isatty()


def standard_input(limit: int = PROMPT_BYTES) -> str:
    """UTF-8 text up to the end of standard input, as it came.

    Raises:
        UsageError: more than ``limit`` bytes, no UTF-8, or no standard input.
    """
    return decoded(standard_bytes(limit, do="give less text", instead="give the text as an argument"), _NAME)


def standard_bytes(limit: int, *, do: str, instead: str = "name a file") -> bytes:
    """All of standard input. ``do`` is what helps where it is too long, ``instead`` where there is none.

    Raises:
        UsageError: more than ``limit`` bytes, or no standard input.
        InvalidFileError: reading failed.
    """
    if sys.stdin is None:
        raise UsageError("there is no standard input", do=instead)
    # Unbuffered where it can be: a buffered read would go on until its buffer is full.
    stream = cast(BinaryIO, getattr(sys.stdin.buffer, "raw", sys.stdin.buffer))
    with _signals_heard(stream) as wait:
        return read_bounded(stream, limit, _NAME, do=do, wait=wait)


def standard_lines(limit: int, *, instead: str = "name a file") -> Iterator[bytes]:
    """Lines of standard input as they come, with their ends. ``instead`` is what helps where there is no input.

    Raises:
        UsageError: a line of more than ``limit`` bytes, or no standard input.
        InvalidFileError: reading failed.
    """
    if sys.stdin is None:
        raise UsageError("there is no standard input", do=instead)
    stream = cast(BinaryIO, getattr(sys.stdin.buffer, "raw", sys.stdin.buffer))
    rest = b""
    while piece := _piece(stream):
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            _require_short(line, limit)
            yield line + b"\n"
        _require_short(rest, limit)
    if rest:
        yield rest


def _require_short(line: bytes, limit: int) -> None:
    if len(line) > limit:
        raise UsageError(f"a line of {_NAME} is too long", why=f"allowed: up to {mebibytes(limit)}")


def _piece(stream: BinaryIO) -> bytes:
    """What has come; b"" at the end."""
    while True:
        with _signals_heard(stream) as wait:
            wait()
            try:
                piece = stream.read(_PIECE_BYTES)
            except OSError as error:
                raise InvalidFileError(f"{_NAME} cannot be read", why=error.strerror or str(error)) from error
        # None where somebody made it non-blocking and nothing is there after all.
        if piece is not None:
            return piece


def typed_line() -> str:
    """The next line a person types, without its end; "" at the end of the input."""
    with _signals_heard(sys.stdin.buffer) as wait:
        wait()
        return sys.stdin.readline().strip()


@contextlib.contextmanager
def _signals_heard(stream: BinaryIO) -> Iterator[Callable[[], None]]:
    """A wait for input that a signal ends too, whenever it comes.

    The interpreter runs handlers between its own steps: a signal that comes within the call that is about to
    block waits until there is input, which may be never. The kernel is asked for both at once instead.
    """
    try:
        number = stream.fileno()
    except (OSError, ValueError):
        number = -1
    if number < 0 or threading.current_thread() is not threading.main_thread():
        yield lambda: None
        return
    heard, told = os.pipe()
    os.set_blocking(told, False)
    before = signal.set_wakeup_fd(told, warn_on_full_buffer=False)

    def wait() -> None:
        while number not in (ready := select.select([number, heard], [], [])[0]):
            if heard in ready:
                os.read(heard, 64)

    try:
        yield wait
    finally:
        signal.set_wakeup_fd(before)
        os.close(heard)
        os.close(told)
