"""Everything a guarded operation does to the world, behind one narrow protocol.

Nothing else in ``ops/guard`` and ``ops/operations`` changes anything, so a test can stop the process before
or after any effect.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from orkbench_tui.ops.files import BoardWriter

__all__ = ["BoardEffects", "Effects", "append_durably"]


class Effects(Protocol):
    """The effects; each raises OSError (or an OrkError) when it did not happen."""

    def record(self, journal: Path, line: bytes) -> None:
        """Append to a journal; the line is on the disk when this returns."""
        ...

    def write(self, path: str, data: bytes) -> None: ...

    def sync(self) -> None: ...

    def terminate(self, pid: int) -> None:
        """SIGTERM. There is no way to send a signal that cannot be caught."""
        ...

    def reset_npu(self) -> None: ...

    def drop_overdue_jobs(self) -> None:
        """Make the kernel look for jobs past their time: it does so when a job is submitted without waiting."""
        ...

    def reboot(self) -> None:
        """Order the board to boot anew. Returns, or the process ends with the board."""
        ...

    def set_membership(self, user: str, group: str, inside: bool) -> None:
        """Put a user into a group, or take him out."""
        ...

    def sleep(self, seconds: float) -> None: ...


def append_durably(path: Path, line: bytes) -> None:
    """Append and fsync; a new file's folder entry is made durable too. Readable by the user alone.

    Raises:
        OSError: not the whole line is on the disk.
    """
    fresh = not path.exists()
    fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        while line:
            # A disk that fills up takes a part of a line and refuses only the next one.
            line = line[os.write(fd, line) :]
        os.fsync(fd)
    finally:
        os.close(fd)
    if fresh:
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


@dataclass(frozen=True, slots=True)
class BoardEffects:
    """Effects on a board. ``reset`` and ``drop_overdue`` open the NPU themselves; ``boot_anew`` reboots it,
    ``membership`` changes its groups.
    """

    writer: BoardWriter
    reset: Callable[[], None]
    drop_overdue: Callable[[], None]
    boot_anew: Callable[[], None]
    membership: Callable[[str, str, bool], None]

    def record(self, journal: Path, line: bytes) -> None:
        append_durably(journal, line)

    def write(self, path: str, data: bytes) -> None:
        self.writer.write(path, data)

    def sync(self) -> None:
        self.writer.sync()

    def terminate(self, pid: int) -> None:
        self.writer.terminate(pid)

    def reset_npu(self) -> None:
        self.reset()

    def drop_overdue_jobs(self) -> None:
        self.drop_overdue()

    def reboot(self) -> None:
        self.boot_anew()

    def set_membership(self, user: str, group: str, inside: bool) -> None:
        self.membership(user, group, inside)

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)
