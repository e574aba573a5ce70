"""One program at a time on the NPU.

A reset from any process hits everyone on the device, and two clients have panicked boards, so our
commands take an advisory lock and a second one is told who holds it. The lock is a file that holds
the owner's pid and command; the kernel drops the lock when the owner ends, however it ends.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
from dataclasses import dataclass
from pathlib import Path

from orkbench_tui.driver.this_process import this_command
from orkbench_tui.errors import BusyError, DeniedError
from orkbench_tui.own_files import own_file_error
from orkbench_tui.plain_text import one_line

__all__ = ["DeviceLock", "Holder"]

# The year 5138: later times have no local time everywhere.
_END_OF_TIME_S = 1e11


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds the lock, as it said of itself."""

    pid: int
    command: str
    since: float

    def describe(self) -> str:
        started = time.strftime("%H:%M:%S", time.localtime(self.since))
        return f"pid {self.pid} ({self.command}), since {started}"


def _read_holder(fd: int) -> Holder | None:
    try:
        data = json.loads(os.pread(fd, 4096, 0) or b"{}")
        holder = Holder(int(data["pid"]), one_line(str(data["command"]), 80), float(data["since"]))
        # Anybody may write this file: what no process can be is no holder.
        return holder if 0 < holder.pid < 1 << 31 and 0 <= holder.since < _END_OF_TIME_S else None
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError, OSError):
        return None


class DeviceLock:
    """Holds the lock file ``path`` until closed.

    Raises:
        BusyError: another process holds it; the message names it.
        DeniedError: the lock file cannot be opened.
    """

    def __init__(self, path: Path, device: str) -> None:
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise own_file_error(error, path.parent, "the NPU lock") from error
        flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            # Without O_CREAT first: in a sticky folder the kernel refuses O_CREAT on another user's file.
            try:
                self._fd = os.open(path, flags)
            except FileNotFoundError:
                self._fd = os.open(path, flags | os.O_CREAT, 0o666)
                # Whoever comes first must not shut the others out by their umask.
                os.fchmod(self._fd, 0o666)
        except OSError as error:
            raise DeniedError(
                f"cannot open the NPU lock {path}",
                why=os.strerror(error.errno or 0),
                do="remove it if its owner is gone",
            ) from error
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = _read_holder(self._fd)
            os.close(self._fd)
            raise BusyError(
                f"{device} is in use",
                why=f"held by {holder.describe()}" if holder else f"another process holds {path}",
                do="wait for it to end, or end it with Ctrl-C in its terminal",
            ) from None
        record = json.dumps({"pid": os.getpid(), "command": this_command(), "since": time.time()}).encode()
        # Who holds it is a courtesy; the lock holds on a full disk too.
        with contextlib.suppress(OSError):
            os.ftruncate(self._fd, 0)
            os.pwrite(self._fd, record, 0)

    def close(self) -> None:
        if self._fd >= 0:
            os.ftruncate(self._fd, 0)
            os.close(self._fd)
            self._fd = -1
