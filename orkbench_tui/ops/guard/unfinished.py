"""Operations on a board that were interrupted and not yet resumed, for commands that only look."""

from __future__ import annotations

import re
from pathlib import Path

from orkbench_tui.ops.guard.journal import readable

__all__ = ["unfinished_lines"]

_LOCKS = Path("/proc/locks")


def unfinished_lines(state: Path, source: str, lock: Path) -> list[str]:
    """A line for each, with what deals with it; none while an operation is at work. Changes nothing, waits for nothing.

    ``state``, ``source`` and ``lock`` are those of ``GuardedBoard``. A journal that cannot be read is named too, as
    no operation begins beside it.
    """
    runs, wrong = readable(state)
    still_open = [run for run in runs if run.open and run.source == source]
    if still_open and _locked(lock):
        return []
    return [
        *(f"{run.operation} was interrupted: run `ork board resume`" for run in still_open),
        *(error.line() for error in wrong),
    ]


def _locked(path: Path) -> bool:
    """Whether a process holds the lock file. To try the lock would make an operation that begins just now fail."""
    try:
        number = path.stat().st_ino
        held = _LOCKS.read_text("ascii", "replace")
    except OSError:
        return False
    # Only the number of the file: for some file systems the kernel names another device here than stat does.
    return re.search(rf"FLOCK .*:{number} 0 EOF$", held, re.MULTILINE) is not None
