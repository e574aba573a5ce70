"""The three standard streams as our programs want them, whatever they were started with.

- closed (``>&-``): the numbers 0 to 2 are taken by placeholders, so that no file of ours gets one of them;
- a writer that cannot encode (an ASCII locale): characters are shown as escapes instead of an error;
- standard output that cannot be written is an error that names it; standard error that cannot be written
  changes nothing, since it never is a command's result.
"""

from __future__ import annotations

import io
import os
import sys

from orkbench_tui.cli.diagnostics import STANDARD_OUTPUT

__all__ = ["prepare"]


class _Output(io.FileIO):
    """Standard output; its errors say so."""

    def write(self, data: object, /) -> int:
        try:
            return super().write(data)  # type: ignore[arg-type]
        except OSError as error:
            raise OSError(error.errno, error.strerror, STANDARD_OUTPUT) from None


class _Notes(io.FileIO):
    """Standard error; what it does not take is lost."""

    def write(self, data: object, /) -> int:
        try:
            return super().write(data)  # type: ignore[arg-type]
        except OSError:
            return memoryview(data).nbytes  # type: ignore[arg-type]


def prepare() -> None:
    """Replace the interpreter's streams. For the start of a program, before anything is written."""
    _hold_numbers()
    if sys.stdin is None:
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stdout = _writer(_Output(1, "w", closefd=False), _encoding(sys.stdout), line_buffered=os.isatty(1))
    sys.stderr = _writer(_Notes(2, "w", closefd=False), _encoding(sys.stderr), line_buffered=True)


def _hold_numbers() -> None:
    # Writing to what is open for reading fails, which is what a closed output should do.
    for number, flags in ((0, os.O_RDONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            opened = os.open(os.devnull, flags)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)


def _encoding(stream: object) -> str:
    return getattr(stream, "encoding", None) or "utf-8"


def _writer(raw: io.FileIO, encoding: str, *, line_buffered: bool) -> io.TextIOWrapper:
    return io.TextIOWrapper(
        io.BufferedWriter(raw), encoding=encoding, errors="backslashreplace", line_buffering=line_buffered
    )
