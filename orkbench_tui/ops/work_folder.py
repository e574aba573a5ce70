"""Folders for work in passing, which tell whether the process that works in them still lives.

Each holds a file that its process keeps locked. The kernel drops the lock when the process ends, however it ends, so
a folder whose lock can be had is a leftover. Places: ``$TMPDIR``, else /tmp.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["KERNEL", "PATCHES", "PREFIXES", "Leftover", "remove_leftovers", "work_folder"]

KERNEL, PATCHES = "ork-kernel-", "ork-patches-"
PREFIXES = (KERNEL, PATCHES)
_LOCK, _CONTENT = "lock", "content"
_UNNAMED = ".ork-work-"


@dataclass(frozen=True, slots=True)
class Leftover:
    """What a process that is gone left behind; ``removed`` is False where the system refused."""

    path: Path
    size_bytes: int
    removed: bool


@contextlib.contextmanager
def work_folder(prefix: str) -> Iterator[Path]:
    """An empty folder, readable by its user alone, for the block. ``prefix`` is one of ``PREFIXES``.

    Raises:
        OSError: it cannot be made.
    """
    unnamed = Path(tempfile.mkdtemp(prefix=_UNNAMED))
    lock = os.open(unnamed / _LOCK, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    place = unnamed
    try:
        # Only a folder that is locked already gets the name that ``remove_leftovers`` looks for.
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        place = unnamed.rename(unnamed.with_name(prefix + unnamed.name.removeprefix(_UNNAMED)))
        (place / _CONTENT).mkdir()
        yield place / _CONTENT
    finally:
        _remove(place)
        os.close(lock)


def remove_leftovers() -> list[Leftover]:
    """Remove this user's folders whose process is gone; one of a process that lives is never touched."""
    found = []
    with contextlib.suppress(OSError):
        for path in sorted(Path(tempfile.gettempdir()).iterdir()):
            if path.name.startswith(PREFIXES) and (left := _removed(path)) is not None:
                found.append(left)
    return found


def _removed(place: Path) -> Leftover | None:
    """None for a folder that is in use, of another user, or none of ours."""
    with contextlib.suppress(OSError):
        about = place.lstat()
        if not stat.S_ISDIR(about.st_mode) or about.st_uid != os.getuid():
            return None
        lock = os.open(place / _LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            size = _bytes_below(place)
            return Leftover(place, size, _remove(place))
        finally:
            os.close(lock)
    return None


def _bytes_below(folder: Path) -> int:
    return sum(path.lstat().st_size for path in folder.rglob("*") if not path.is_symlink() and path.is_file())


def _remove(place: Path) -> bool:
    """Whether it is gone. The lock goes last, so that a removal that is interrupted leaves a leftover."""
    if (place / _CONTENT).exists():
        shutil.rmtree(place / _CONTENT, onerror=_opened_up)
    if not (place / _CONTENT).exists():
        shutil.rmtree(place, ignore_errors=True)
    return not place.exists()


def _opened_up(act: Callable[..., Any], path: str, error: Any) -> None:
    """Once more, with the folders writable: packages hold folders that are closed to their owner."""
    with contextlib.suppress(OSError):
        Path(path).parent.chmod(0o700)
        if act in (os.rmdir, os.unlink):
            act(path)
        elif not Path(path).is_symlink():
            Path(path).chmod(0o700)
            shutil.rmtree(path, ignore_errors=True)
