"""What becomes of a process whose mapped file is cut short under it."""

from __future__ import annotations

from orkbench_tui.native.library import lib

__all__ = ["end_on_lost_file"]


def end_on_lost_file(line: str, exit_code: int) -> None:
    """From now on such a process ends with ``line`` on standard error and this code; at most 500 bytes.

    Raises:
        ValueError: the line is too long.
    """
    if lib.ork_end_on_lost_file(line.encode(), exit_code):
        raise ValueError(f"{len(line)} letters")
