"""The board's files: one door to sysfs, procfs, debugfs and the kernel log.

Every probe ends in one of three states, never in a guess: the bytes, ``absent`` or ``denied``.
A real board reads below ``/`` (or a recorded root), the simulated board answers the same paths.
"""

from __future__ import annotations

import builtins
import errno
import os
import signal
import stat
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Protocol

from orkbench_tui.plain_text import one_line

__all__ = ["Access", "BoardFiles", "BoardWriter", "HostFiles", "Reading", "detail_of"]

MAX_BYTES = 1 << 20
MAX_LINE = 200


class Access(Enum):
    PRESENT = "present"
    ABSENT = "absent"
    DENIED = "denied"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Reading:
    """The outcome of one read. ``data`` is empty unless ``access`` is PRESENT."""

    path: str
    access: Access
    data: bytes = b""
    errno_name: str = ""

    @property
    def ok(self) -> bool:
        return self.access is Access.PRESENT

    def text(self) -> str:
        return self.data.decode("utf-8", "replace")

    def line(self) -> str:
        """The text as one short printable line: for a name or a word, whatever the file holds."""
        return one_line(self.text(), MAX_LINE)

    @staticmethod
    def from_error(path: str, error: OSError) -> Reading:
        name = errno.errorcode.get(error.errno or 0, "EIO")
        if name in ("ENOENT", "ENOTDIR", "ENODEV", "ENXIO"):
            return Reading(path, Access.ABSENT, errno_name=name)
        if name in ("EACCES", "EPERM"):
            return Reading(path, Access.DENIED, errno_name=name)
        return Reading(path, Access.FAILED, errno_name=name)


class BoardFiles(Protocol):
    """Reads by absolute board path."""

    @property
    def label(self) -> str:
        """``board``, ``sim`` or ``replay``: goes into every sample as its source."""
        ...

    def read(self, path: str) -> Reading: ...

    def read_many(self, paths: list[str]) -> list[Reading]:
        """Several reads as close together as the source allows, in the order given."""
        ...

    def list(self, path: str) -> list[str]:
        """Names in a folder, sorted; empty when it is absent or denied."""
        ...

    def readlink(self, path: str) -> str | None: ...

    def kernel_log(self, after_sequence: int = -1) -> builtins.list[bytes]:
        """Raw ``/dev/kmsg`` records (with dictionary lines) whose sequence is above the given one."""
        ...

    def close(self) -> None: ...


def detail_of(files: BoardFiles) -> str:
    """What a source says about itself beyond its label, asked anew each time; "" where it says nothing.

    A source may have a ``detail`` for that: the simulated board's is its pace, ``fast`` or ``real``.
    """
    return str(getattr(files, "detail", ""))


class BoardWriter(Protocol):
    """The one door for changes to board files; only guarded operations go through it."""

    def write(self, path: str, data: bytes) -> None:
        """One write of the whole value, as ``echo value > path`` does. Nothing is created.

        Raises:
            OSError: what the kernel answered.
        """
        ...

    def sync(self) -> None:
        """Return when data of all file systems is on its disks."""
        ...

    def terminate(self, pid: int) -> None:
        """SIGTERM to a process of the board.

        Raises:
            OSError: ProcessLookupError or PermissionError.
        """
        ...


class HostFiles:
    """The files of the machine we run on, or of a recorded root."""

    def __init__(self, root: str = "/", label: str = "board") -> None:
        self._root = Path(root)
        self.label = label

    def _at(self, path: str) -> Path:
        return self._root / path.lstrip("/")

    def read(self, path: str) -> Reading:
        chunks: builtins.list[bytes] = []
        total = 0
        try:
            # Not blocking: /dev/kmsg and pipes would wait for more at their end.
            fd = os.open(self._at(path), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                while total < MAX_BYTES and (chunk := os.read(fd, 65536)):
                    chunks.append(chunk)
                    total += len(chunk)
            except BlockingIOError:
                pass
            finally:
                os.close(fd)
        except OSError as error:
            return Reading.from_error(path, error)
        return Reading(path, Access.PRESENT, b"".join(chunks))

    def read_many(self, paths: list[str]) -> list[Reading]:
        return [self.read(path) for path in paths]

    def list(self, path: str) -> list[str]:
        try:
            return sorted(os.listdir(self._at(path)))  # noqa: PTH208 - names, not paths
        except OSError:
            return []

    def readlink(self, path: str) -> str | None:
        try:
            return str(self._at(path).readlink())
        except OSError:
            return None

    def kernel_log(self, after_sequence: int = -1) -> builtins.list[bytes]:
        """Records of ``/dev/kmsg``; empty when it is absent or denied (read it to learn which)."""
        records: builtins.list[bytes] = []
        try:
            fd = os.open(self._at("/dev/kmsg"), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return records
        try:
            if stat.S_ISREG(os.fstat(fd).st_mode):
                return _saved_records(os.read(fd, 64 << 20), after_sequence)
            while len(records) < 200_000:
                try:
                    record = os.read(fd, 16384)
                except BlockingIOError:
                    break
                except OSError as error:
                    if error.errno == errno.EPIPE:
                        continue
                    break
                if not record:
                    break
                if _sequence(record) > after_sequence:
                    records.append(record)
        finally:
            os.close(fd)
        return records

    def write(self, path: str, data: bytes) -> None:
        fd = os.open(self._at(path), os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC)
        try:
            # A node takes a value in one write or not at all: a second write would be a second value.
            os.write(fd, data)
        finally:
            os.close(fd)

    def sync(self) -> None:
        os.sync()

    def terminate(self, pid: int) -> None:
        """``BoardWriter``. A recorded root has no processes: a number in it may be anybody's here."""
        if self._root != Path("/"):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))
        os.kill(pid, signal.SIGTERM)

    def close(self) -> None:
        return None


def _sequence(record: bytes) -> int:
    """The record's number; a record without one is later than all."""
    number = record.split(b",", 2)[1:2]
    return int(number[0]) if number and number[0].isdigit() else 1 << 62


def _saved_records(data: bytes, after_sequence: int) -> list[bytes]:
    """The records of a saved ``/dev/kmsg``, dictionary lines with the record they follow."""
    records: list[bytes] = []
    for line in data.splitlines(keepends=True):
        if line.startswith(b" ") and records:
            records[-1] += line
        elif line.strip():
            records.append(line)
    return [record for record in records if _sequence(record) > after_sequence]
