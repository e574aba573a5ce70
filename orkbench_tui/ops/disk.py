"""The disk a board boots from: reading it, and the few effects an installation needs, each on its own.

Each effect is one system call or one durable write, so that a test can stop the process between any two, and so
that a plain user needs root for that one effect only.
"""

from __future__ import annotations

import hashlib
import os
import stat
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import BinaryIO, Protocol

__all__ = ["Disk", "FileSystem", "HostDisk", "Kind", "file_system_of", "files_below", "tree_digest"]

_CHUNK = 1 << 20


class Kind(Enum):
    FILE = "file"
    LINK = "link"
    FOLDER = "folder"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class FileSystem:
    """Where a path lies. ``type`` is as in /proc/mounts; ``mount`` the mount point."""

    type: str
    mount: str
    read_only: bool
    free_bytes: int

    @property
    def has_links(self) -> bool:
        return self.type not in ("vfat", "msdos", "exfat")


class Disk(Protocol):
    """Paths are absolute on the board. Every method may raise OSError."""

    def kind(self, path: str) -> Kind | None:
        """What stands at a path itself, links not followed; None for nothing."""
        ...

    def read(self, path: str, limit: int) -> bytes:
        """Up to ``limit`` bytes from the start, links followed inside the board's root."""
        ...

    def size(self, path: str) -> int: ...

    def digest(self, path: str) -> str:
        """sha256 in hex, read again from the disk and not from memory where the system allows that."""
        ...

    def list(self, path: str) -> list[str]:
        """Names in a folder, sorted; empty where there is none."""
        ...

    def readlink(self, path: str) -> str | None: ...

    def mode(self, path: str) -> int:
        """Permission bits of a file."""
        ...

    def file_system(self, path: str) -> FileSystem: ...

    def make_folder(self, path: str) -> None: ...

    def create(self, path: str, data: bytes, mode: int) -> None:
        """A new file with this content; FileExistsError when there is one. Not yet durable."""
        ...

    def copy_in(self, source: Path, path: str, mode: int) -> None:
        """A new file with the content of a file of this machine. Not yet durable."""
        ...

    def sync_file(self, path: str) -> None: ...

    def sync_folder(self, path: str) -> None: ...

    def rename(self, old: str, new: str) -> None:
        """Replaces a file or link at ``new`` at once."""
        ...

    def link(self, target: str, path: str) -> None:
        """A new symbolic link."""
        ...

    def remove(self, path: str) -> None:
        """A file or link."""
        ...

    def remove_folder(self, path: str) -> None:
        """An empty folder."""
        ...

    def run_script(self, path: str, *arguments: str) -> tuple[int, str]:
        """Run a shell script of the disk with ROOT set to it; exit code and what it printed."""
        ...


def files_below(disk: Disk, folder: str, prefix: str = "") -> list[tuple[str, str]]:
    """Relative path and digest of every file in a folder; a link's digest is ``-> target``."""
    found = []
    for name in disk.list(folder):
        path, relative = f"{folder}/{name}", f"{prefix}{name}"
        kind = disk.kind(path)
        if kind is Kind.FOLDER:
            found += files_below(disk, path, f"{relative}/")
        elif kind is Kind.LINK:
            found.append((relative, f"-> {disk.readlink(path)}"))
        else:
            found.append((relative, disk.digest(path)))
    return found


def tree_digest(files: Sequence[tuple[str, str]]) -> str:
    """One sha256 for what ``files_below`` found."""
    found = hashlib.sha256()
    for name, digest in sorted(files):
        found.update(f"{name}\0{digest}\0".encode())
    return found.hexdigest()


def file_system_of(mounts: str, path: str) -> tuple[str, str, bool]:
    """Type, mount point and whether it is read-only, of a path, from the text of /proc/mounts."""
    best = ("unknown", "/", False)
    for line in mounts.splitlines():
        parts = line.split()
        if len(parts) < 4:
            continue
        mount = parts[1].encode("latin-1", "replace").decode("unicode_escape", "replace")
        inside = path == mount or path.startswith(mount.rstrip("/") + "/")
        if inside and len(mount) >= len(best[1]):
            best = (parts[2], mount, "ro" in parts[3].split(","))
    return best


class HostDisk:
    """A board's disk at a folder of this machine: ``/`` on the board itself."""

    def __init__(self, root: str = "/", mounts: str = "/proc/mounts") -> None:
        self._root = Path(root)
        self._mounts = Path(mounts)

    @property
    def root(self) -> Path:
        return self._root

    def _at(self, path: str) -> Path:
        """The place of a path on this machine; links in its folders are followed inside the root."""
        if self._root == Path("/"):
            return Path(path)
        parts = [part for part in path.split("/") if part not in ("", ".")]
        real: list[str] = []
        budget = 40
        while parts:
            part = parts.pop(0)
            if part == "..":
                real = real[:-1]
                continue
            place = self._root.joinpath(*real, part)
            if parts and place.is_symlink() and (budget := budget - 1) > 0:
                target = str(place.readlink())
                real = [] if target.startswith("/") else real
                parts = [piece for piece in target.split("/") if piece not in ("", ".")] + parts
                continue
            real.append(part)
        return self._root.joinpath(*real)

    def _followed(self, path: str) -> Path:
        """As ``_at``, and the last component followed as well."""
        for _ in range(40):
            place = self._at(path)
            if not place.is_symlink():
                return place
            target = str(place.readlink())
            path = target if target.startswith("/") else f"{path.rpartition('/')[0]}/{target}"
        raise OSError(40, os.strerror(40), path)

    def kind(self, path: str) -> Kind | None:
        try:
            mode = self._at(path).lstat().st_mode
        except (FileNotFoundError, NotADirectoryError):
            return None
        for test, kind in ((stat.S_ISLNK, Kind.LINK), (stat.S_ISREG, Kind.FILE), (stat.S_ISDIR, Kind.FOLDER)):
            if test(mode):
                return kind
        return Kind.OTHER

    def read(self, path: str, limit: int) -> bytes:
        with self._open(path) as file:
            return file.read(limit)

    def _open(self, path: str) -> BinaryIO:
        # Not blocking: a pipe under a boot file's name must not stop us.
        fd = os.open(self._followed(path), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            os.close(fd)
            raise OSError(22, "no regular file", path)
        return os.fdopen(fd, "rb")

    def size(self, path: str) -> int:
        return self._followed(path).stat().st_size

    def digest(self, path: str) -> str:
        found = hashlib.sha256()
        with self._open(path) as file:
            if hasattr(os, "posix_fadvise"):
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            while chunk := file.read(_CHUNK):
                found.update(chunk)
        return found.hexdigest()

    def list(self, path: str) -> list[str]:
        try:
            return sorted(os.listdir(self._followed(path)))  # noqa: PTH208 - names, not paths
        except (FileNotFoundError, NotADirectoryError):
            return []

    def readlink(self, path: str) -> str | None:
        place = self._at(path)
        return str(place.readlink()) if place.is_symlink() else None

    def mode(self, path: str) -> int:
        return stat.S_IMODE(self._followed(path).stat().st_mode)

    def file_system(self, path: str) -> FileSystem:
        place = self._at(path)
        while not place.exists() and place != place.parent:
            place = place.parent
        space = os.statvfs(place)
        try:
            mounts = self._mounts.read_text("utf-8", "replace")
        except OSError:
            mounts = ""
        kind, mount, read_only = file_system_of(mounts, path)
        return FileSystem(kind, mount, read_only, self._told_free(path) or space.f_bavail * space.f_frsize)

    def _told_free(self, path: str) -> int | None:
        """Free bytes a recorded or simulated disk says it has, in ``.statvfs`` of the folder; None without that."""
        if self._root == Path("/"):
            return None
        try:
            return int((self._at(path) / ".statvfs").read_text())
        except (OSError, ValueError):
            return None

    def make_folder(self, path: str) -> None:
        self._at(path).mkdir(mode=0o755)

    def create(self, path: str, data: bytes, mode: int) -> None:
        fd = self._new(path, mode)
        with os.fdopen(fd, "wb") as file:
            file.write(data)

    def _new(self, path: str, mode: int) -> int:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        fd = os.open(self._at(path), flags, mode)
        os.fchmod(fd, mode)
        return fd

    def copy_in(self, source: Path, path: str, mode: int) -> None:
        with source.open("rb") as data, os.fdopen(self._new(path, mode), "wb") as file:
            while chunk := data.read(_CHUNK):
                file.write(chunk)

    def sync_file(self, path: str) -> None:
        self._sync(path, os.O_RDONLY)

    def sync_folder(self, path: str) -> None:
        self._sync(path, os.O_RDONLY | os.O_DIRECTORY)

    def _sync(self, path: str, flags: int) -> None:
        fd = os.open(self._at(path), flags | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def rename(self, old: str, new: str) -> None:
        self._at(old).rename(self._at(new))

    def link(self, target: str, path: str) -> None:
        self._at(path).symlink_to(target)

    def remove(self, path: str) -> None:
        self._at(path).unlink()

    def remove_folder(self, path: str) -> None:
        self._at(path).rmdir()

    def run_script(self, path: str, *arguments: str) -> tuple[int, str]:
        root = "" if self._root == Path("/") else str(self._root)
        env = {"PATH": os.environ.get("PATH", "/usr/sbin:/usr/bin:/sbin:/bin"), "LC_ALL": "C", "ROOT": root}
        command = ["sh", str(self._at(path)), *arguments]
        try:
            done = subprocess.run(
                command,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=30,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return 124, "it did not end within 30 s"
        return done.returncode, done.stdout.decode("utf-8", "replace")
