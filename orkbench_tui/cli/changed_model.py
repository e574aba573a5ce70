"""A model file that is written to while it is read in place: nothing stops, and what is computed is of no model."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from orkbench_tui.cli import diagnostics

__all__ = ["told_of_changes"]


@contextmanager
def told_of_changes(path: Path) -> Iterator[None]:
    """Warns at the end, however it comes, where the file's content is not what it was at the beginning.

    One that was replaced by renaming another over it is still read as it was, and nothing is said.
    """
    before = _content(path)
    try:
        yield
    finally:
        now = _content(path)
        if before and now and before[0] == now[0] and before != now:
            diagnostics.warn(
                f"{path} was written to while it was read: answers may be of neither the old nor the new model; "
                "replace such files by renaming others over them"
            )


def _content(path: Path) -> tuple[tuple[int, int], int, int] | None:
    """Which file it is, its size and when it was last written; None where it cannot be asked."""
    try:
        status = path.stat()
    except OSError:
        return None
    return (status.st_dev, status.st_ino), status.st_size, status.st_mtime_ns
