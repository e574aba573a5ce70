"""What comes in on standard input, with a limit."""

from __future__ import annotations

import sys
from typing import BinaryIO, cast

from orkbench_tui.errors import UsageError
from orkbench_tui.user_files import decoded, read_bounded

__all__ = ["LOG_BYTES", "PROMPT_BYTES", "TEXT_BYTES", "standard_input", "stdin_is_terminal"]

PROMPT_BYTES = 4 << 20
"""A question or a text to continue; the longest context takes less."""
TEXT_BYTES = 64 << 20
"""A text to measure or cut into tokens."""
LOG_BYTES = 64 << 20
"""A saved kernel log; a board keeps at most a few MiB."""


def stdin_is_terminal() -> bool:
    return sys.stdin is not None and sys.stdin.isatty()


def standard_input(limit: int = PROMPT_BYTES) -> str:
    """UTF-8 text up to the end of standard input, as it came.

    Raises:
        UsageError: more than ``limit`` bytes, no UTF-8, or no standard input.
    """
    if sys.stdin is None:
        raise UsageError("there is no standard input", do="give the text as an argument")
    # Unbuffered where it can be: a buffered read would go on until its buffer is full.
    stream = getattr(sys.stdin.buffer, "raw", sys.stdin.buffer)
    return decoded(
        read_bounded(cast(BinaryIO, stream), limit, "standard input", do="give less text"), "standard input"
    )
