"""Everything that goes to standard error, and the mapping from failures to exit codes."""

from __future__ import annotations

import errno
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from orkbench_tui.errors import ExitCode, OrkError
from orkbench_tui.own_files import own_file_error
from orkbench_tui.plain_text import one_line

__all__ = ["STANDARD_OUTPUT", "note", "report", "status", "stderr_is_terminal", "told_to", "warn"]

STANDARD_OUTPUT = "standard output"
"""The file name in errors of writing results."""

_FULL = (errno.ENOSPC, errno.EDQUOT)


_LISTENER: ContextVar[Callable[[str], None] | None] = ContextVar("listener", default=None)


@contextmanager
def told_to(listener: Callable[[str], None]) -> Iterator[None]:
    """In the block, what this thread would print goes to ``listener`` line by line: the screen has the terminal."""
    token = _LISTENER.set(listener)
    try:
        yield
    finally:
        _LISTENER.reset(token)


def _say(prefix: str, text: str) -> None:
    if (listener := _LISTENER.get()) is not None:
        listener(f"{prefix}{one_line(text, 1000)}")
        return
    if sys.stderr is None:
        return
    try:
        print(f"{prefix}{one_line(text, 1000)}", file=sys.stderr, flush=True)
    except (OSError, ValueError):
        # What is said here never is a command's result, so nobody to hear it changes nothing.
        return


def note(text: str) -> None:
    """One line of progress or context; never part of a command's result."""
    _say("", text)


def stderr_is_terminal() -> bool:
    return _LISTENER.get() is not None or (sys.stderr is not None and sys.stderr.isatty())


def status(text: str) -> None:
    """Redraw one transient line, for progress on a terminal; an empty text clears it."""
    if (listener := _LISTENER.get()) is not None:
        listener(one_line(text, 1000))
        return
    try:
        if sys.stderr is None:
            return
        width = os.get_terminal_size(sys.stderr.fileno()).columns or 80
        sys.stderr.write("\r\x1b[2K" + one_line(text, max(width - 1, 1)))
        sys.stderr.flush()
    except (OSError, ValueError):
        return


def warn(text: str) -> None:
    _say("warning: ", text)


def report(error: BaseException) -> ExitCode:
    """Print a failure as one line and give the exit code; a traceback only with ORK_DEBUG set."""
    if os.environ.get("ORK_DEBUG"):
        traceback.print_exception(error, file=sys.stderr)
    if isinstance(error, OrkError):
        _say("error: ", error.line())
        return error.exit_code
    if isinstance(error, KeyboardInterrupt):
        _say("", "interrupted")
        return ExitCode.INTERRUPTED
    if isinstance(error, OSError) and error.filename == STANDARD_OUTPUT:
        _say("error: ", f"standard output cannot be written: {error.strerror}")
        return ExitCode.NO_MEMORY if error.errno in _FULL else ExitCode.FAILED
    if isinstance(error, OSError) and error.filename is not None:
        failure = own_file_error(error, error.filename, "its files")
        _say("error: ", failure.line())
        return failure.exit_code
    if isinstance(error, PermissionError):
        _say("error: ", "permission denied")
        return ExitCode.DENIED
    if isinstance(error, OSError) and error.errno in _FULL:
        _say("error: ", "no space left; free some and run again")
        return ExitCode.NO_MEMORY
    if isinstance(error, OSError) and error.errno == errno.ENOMEM:
        error = MemoryError()
    if isinstance(error, MemoryError):
        _say("error: ", "not enough memory; close other programs or choose a smaller model or context")
        return ExitCode.NO_MEMORY
    _say(
        "error: ",
        f"{type(error).__name__}: {error}; this is a defect, run again with ORK_DEBUG=1 for the traceback",
    )
    return ExitCode.FAILED
