"""What needs root: done directly where this user may, else through sudo, for that one effect.

sudo asks on the terminal itself; no password passes through this program.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TypeVar

from orkbench_tui.errors import DeniedError
from orkbench_tui.ops.disk import HostDisk
from orkbench_tui.ops.files import HostFiles

__all__ = ["Aside", "RootDisk", "RootWriter", "asking_aside", "change_membership", "order_reboot"]

_Result = TypeVar("_Result")

Aside = Callable[[Callable[[], None]], None]
"""Runs a step in which sudo may ask for a password: a full-screen program gives the terminal back for it."""

_ASIDE: ContextVar[Aside | None] = ContextVar("aside", default=None)


@contextmanager
def asking_aside(aside: Aside) -> Iterator[None]:
    """In the block, this thread runs sudo through ``aside``."""
    token = _ASIDE.set(aside)
    try:
        yield
    finally:
        _ASIDE.reset(token)


def _refused(error: OSError) -> bool:
    return error.errno in (errno.EACCES, errno.EPERM) and os.geteuid() != 0


def _sudo(what: str, *command: str, data: bytes = b"") -> bytes:
    """Run one command as root; what it printed. Raises DeniedError when sudo is absent or refuses."""
    aside = _ASIDE.get()
    if aside is None:
        return _sudo_here(what, command, data)
    printed: list[bytes] = []
    refused: list[DeniedError] = []

    def step() -> None:
        try:
            printed.append(_sudo_here(what, command, data))
        except DeniedError as error:
            # Whoever runs the step knows nothing of what it may raise.
            refused.append(error)

    aside(step)
    if refused:
        raise refused[0]
    return printed[0]


def _sudo_here(what: str, command: tuple[str, ...], data: bytes) -> bytes:
    import sh

    ask = () if sys.stdin.isatty() else ("-n",)
    try:
        # The new session sh would make has no terminal, and sudo could not ask.
        said = sh.Command("sudo")(*ask, "--", *command, _in=data, _new_session=False, _return_cmd=True)
    except sh.CommandNotFound:
        raise DeniedError(what, why="it needs root, and there is no sudo") from None
    except sh.ErrorReturnCode as error:
        lines = error.stderr.decode(errors="replace").strip().splitlines()
        raise DeniedError(
            what,
            why=lines[-1] if lines else f"sudo ended with {error.exit_code}",
            do="run the command as a user who may use sudo",
        ) from None
    return bytes(said.stdout)


class RootWriter:
    """``ops.files.BoardWriter`` of the machine we run on."""

    def __init__(self, files: HostFiles, root: str = "/") -> None:
        self._files = files
        self._root = root.rstrip("/")

    def write(self, path: str, data: bytes) -> None:
        """Raises DeniedError when sudo is absent or refuses, OSError as the kernel answered without it."""
        try:
            self._files.write(path, data)
        except OSError as error:
            if not _refused(error):
                raise
            _sudo(f"cannot write {path}", "tee", self._root + path, data=data)

    def sync(self) -> None:
        self._files.sync()

    def terminate(self, pid: int) -> None:
        self._files.terminate(pid)


class RootDisk(HostDisk):
    """``ops.disk.Disk`` of the machine we run on: what this user may not, one command as root does."""

    def _or(self, act: Callable[[], _Result], what: str, *command: str, data: bytes = b"") -> _Result | bytes:
        try:
            return act()
        except OSError as error:
            if not _refused(error):
                raise
            return _sudo(what, *command, data=data)

    def read(self, path: str, limit: int) -> bytes:
        here = str(self._at(path))
        return self._or(
            lambda: HostDisk.read(self, path, limit), f"cannot read {path}", "head", "-c", str(limit), here
        )

    def digest(self, path: str) -> str:
        found = self._or(
            lambda: HostDisk.digest(self, path), f"cannot read {path}", "sha256sum", str(self._at(path))
        )
        return found if isinstance(found, str) else found.split()[0].decode()

    def make_folder(self, path: str) -> None:
        here = str(self._at(path))
        self._or(lambda: HostDisk.make_folder(self, path), f"cannot make {path}", "mkdir", "-m", "755", here)

    def create(self, path: str, data: bytes, mode: int) -> None:
        self._or(
            lambda: HostDisk.create(self, path, data, mode),
            f"cannot write {path}",
            *("install", "-m", f"{mode:o}", "/dev/stdin", str(self._at(path))),
            data=data,
        )

    def copy_in(self, source: Path, path: str, mode: int) -> None:
        self._or(
            lambda: HostDisk.copy_in(self, source, path, mode),
            f"cannot write {path}",
            *("install", "-m", f"{mode:o}", str(source), str(self._at(path))),
        )

    def sync_file(self, path: str) -> None:
        self._or(lambda: HostDisk.sync_file(self, path), f"cannot sync {path}", "sync", str(self._at(path)))

    def sync_folder(self, path: str) -> None:
        self._or(lambda: HostDisk.sync_folder(self, path), f"cannot sync {path}", "sync", str(self._at(path)))

    def rename(self, old: str, new: str) -> None:
        self._or(
            lambda: HostDisk.rename(self, old, new),
            f"cannot rename {old}",
            *("mv", "-fT", str(self._at(old)), str(self._at(new))),
        )

    def link(self, target: str, path: str) -> None:
        here = str(self._at(path))
        self._or(lambda: HostDisk.link(self, target, path), f"cannot link {path}", "ln", "-sT", target, here)

    def remove(self, path: str) -> None:
        self._or(lambda: HostDisk.remove(self, path), f"cannot remove {path}", "rm", str(self._at(path)))

    def remove_folder(self, path: str) -> None:
        here = str(self._at(path))
        self._or(lambda: HostDisk.remove_folder(self, path), f"cannot remove {path}", "rmdir", here)


def change_membership(user: str, group: str, inside: bool) -> None:
    """Put a user of this machine into a group, or take him out. Raises DeniedError, OSError."""
    import sh

    program, words = ("usermod", ("-aG", group, user)) if inside else ("gpasswd", ("-d", user, group))
    if os.geteuid() != 0:
        _sudo(f"cannot change group {group}", program, *words)
        return
    try:
        sh.Command(program)(*words)
    except sh.CommandNotFound:
        raise OSError(errno.ENOENT, f"there is no {program}") from None
    except sh.ErrorReturnCode as error:
        raise OSError(
            errno.EIO, error.stderr.decode(errors="replace").strip() or f"{program} failed"
        ) from None


def order_reboot() -> None:
    """Boot this machine anew. Raises DeniedError, OSError."""
    import sh

    if os.geteuid() != 0:
        _sudo("cannot reboot", "systemctl", "reboot")
        return
    try:
        sh.Command("systemctl")("reboot")
    except sh.CommandNotFound:
        raise OSError(errno.ENOENT, "there is no systemctl; reboot by hand") from None
    except sh.ErrorReturnCode as error:
        raise OSError(
            errno.EIO, error.stderr.decode(errors="replace").strip() or "systemctl failed"
        ) from None
