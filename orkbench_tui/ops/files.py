"""The board's files: one door to sysfs, procfs, debugfs and the kernel log.

Every probe ends in one of three states, never in a guess: the bytes, ``absent`` or ``denied``.
A real board reads below ``/`` (or a recorded root), the simulated board answers the same paths.
"""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Protocol

__all__ = ["Access", "BoardFiles", "HostFiles", "Reading"]

MAX_BYTES = 1 << 20


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

    def kernel_log(self, after_sequence: int = -1) -> list[bytes]:
        """Raw ``/dev/kmsg`` records (with dictionary lines) whose sequence is above the given one."""
        ...

    def close(self) -> None: ...


class HostFiles:
    """The files of the machine we run on, or of a recorded root."""

    def __init__(self, root: str = "/", label: str = "board") -> None:
        self._root = Path(root)
        self.label = label

    def _at(self, path: str) -> Path:
        return self._root / path.lstrip("/")

    def read(self, path: str) -> Reading:
        try:
            with self._at(path).open("rb", buffering=0) as file:
                chunks = []
                total = 0
                while total < MAX_BYTES and (chunk := file.read(65536)):
                    chunks.append(chunk)
                    total += len(chunk)
        except OSError as error:
            return Reading.from_error(path, error)
        return Reading(path, Access.PRESENT, b"".join(chunks))

    def read_many(self, paths: list[str]) -> list[Reading]:
        return [self.read(path) for path in paths]

    def list(self, path: str) -> list[str]:
        try:
            return sorted(os.listdir(self._at(path)))
        except OSError:
            return []

    def readlink(self, path: str) -> str | None:
        try:
            return str(self._at(path).readlink())
        except OSError:
            return None

    def kernel_log(self, after_sequence: int = -1) -> list[bytes]:
        """Records of ``/dev/kmsg``; empty when it is absent or denied (read it to learn which)."""
        records: list[bytes] = []
        try:
            fd = os.open(self._at("/dev/kmsg"), os.O_RDONLY | os.O_NONBLOCK)
        except OSError:
            return records
        try:
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
                sequence = record.split(b",", 2)[1:2]
                if not sequence or not sequence[0].isdigit() or int(sequence[0]) > after_sequence:
                    records.append(record)
        finally:
            os.close(fd)
        return records

    def close(self) -> None:
        return None
