"""The file under a pack writer: opened by one process at a time, summed up section by section, made durable."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import zlib
from pathlib import Path
from typing import BinaryIO

from orkbench_tui.errors import (
    BusyError,
    DeniedError,
    InvalidFileError,
    NoMemoryError,
    RefusedError,
    UsageError,
)
from orkbench_tui.runner.orkpack.layout import HEADER_BYTES, MAGIC, PAGE, Header, Section, align, fourcc

__all__ = ["SectionSink", "check_overwrite", "disk_error", "open_exclusive", "refuse_folder", "sync_folder"]


class SectionSink:
    """Appends to the file while summing up what the section table will say about it."""

    def __init__(self, handle: BinaryIO, name: str, required: bool) -> None:
        self._handle = handle
        self.name = name
        self.required = required
        self.offset = align(handle.tell(), PAGE)
        handle.write(bytes(self.offset - handle.tell()))
        self.size = 0
        self._crc = 0
        self._sha = hashlib.sha256()

    @property
    def position(self) -> int:
        return self.offset + self.size

    def write(self, data: bytes | memoryview) -> None:
        self._handle.write(data)
        self._crc = zlib.crc32(data, self._crc)
        self._sha.update(data)
        self.size += len(data)

    def keep(self, data: bytes) -> None:
        """Count bytes that the file already holds at this place."""
        self._crc = zlib.crc32(data, self._crc)
        self._sha.update(data)
        self.size += len(data)
        self._handle.seek(self.position)

    def pad(self, to: int) -> None:
        self.write(bytes(align(self.position, to) - self.position))

    def section(self, count: int, entry_bytes: int = 0) -> Section:
        digest = self._sha.digest()[:16]
        return Section(
            fourcc(self.name), self.required, self.offset, self.size, count, entry_bytes, self._crc, digest
        )


def open_exclusive(path: Path, *, keep: bool = False) -> BinaryIO:
    """Open for writing under a lock that ends with the process, then empty it unless ``keep``."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.fdopen(
            os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644), "r+b", buffering=1 << 20
        )
    except OSError as error:
        raise disk_error(error, path) from error
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Whoever held the lock a moment ago may have renamed this very file to its final name.
        ours = os.path.samestat(os.fstat(handle.fileno()), path.stat())
    except (BlockingIOError, FileNotFoundError):
        ours = False
    if not ours:
        handle.close()
        raise BusyError(f"{path} is being written by another process", do="wait for it to finish")
    # Only under the lock, so that nobody's work is cut short.
    if not keep:
        handle.truncate(0)
    return handle


def refuse_folder(path: Path) -> None:
    """UsageError where the name for a finished file is a folder's: said before the work, not after it."""
    if path.is_dir():
        raise UsageError(f"{path} is a folder", do="name the file to be made in it")


def check_overwrite(path: Path, source_sha256: bytes, signature: int, replace: bool) -> None:
    if replace:
        return
    try:
        with path.open("rb") as existing:
            head = existing.read(HEADER_BYTES)
    except OSError:
        return
    if not head.startswith(MAGIC) or len(head) < HEADER_BYTES:
        raise RefusedError(f"{path} exists and is not a weight pack", do="choose another name or delete it")
    old, _ = Header.unpack(head)
    if (old.source_sha256, old.quant_signature) != (source_sha256, signature):
        raise RefusedError(
            f"{path} holds a pack of another model or scheme",
            why=f"signature {old.quant_signature:#x} of {old.source_sha256.hex()[:12]}",
            do="choose another name or use --replace, which keeps the old file as .old",
        )


def disk_error(error: OSError, path: Path) -> Exception:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return NoMemoryError(
            f"no space left for {path}",
            why=error.strerror or "disk full",
            do="free space; nothing was kept of it",
        )
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return DeniedError(
            f"{path} cannot be written", why=error.strerror or "", do="check the folder's owner and mode"
        )
    return InvalidFileError(
        f"{path} cannot be written", why=error.strerror or str(error), do="check the disk"
    )


def sync_folder(path: Path) -> None:
    """Make a rename inside ``path`` durable."""
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
