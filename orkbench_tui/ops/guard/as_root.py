"""Writes that need root: directly where this user may, else through sudo, for that one write.

sudo asks on the terminal itself; no password passes through this program.
"""

from __future__ import annotations

import errno
import os
import sys

from orkbench_tui.errors import DeniedError
from orkbench_tui.ops.files import HostFiles

__all__ = ["RootWriter"]


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
            if error.errno not in (errno.EACCES, errno.EPERM) or os.geteuid() == 0:
                raise
            self._with_sudo(self._root + path, data)

    def sync(self) -> None:
        self._files.sync()

    def terminate(self, pid: int) -> None:
        self._files.terminate(pid)

    @staticmethod
    def _with_sudo(path: str, data: bytes) -> None:
        import sh

        ask = () if sys.stdin.isatty() else ("-n",)
        try:
            # The new session sh would make has no terminal, and sudo could not ask.
            sh.Command("sudo")(*ask, "--", "tee", path, _in=data, _new_session=False)
        except sh.CommandNotFound:
            raise DeniedError(f"cannot write {path}", why="it needs root, and there is no sudo") from None
        except sh.ErrorReturnCode as error:
            said = error.stderr.decode(errors="replace").strip().splitlines()
            raise DeniedError(
                f"cannot write {path}",
                why=said[-1] if said else f"sudo ended with {error.exit_code}",
                do="run the command as a user who may use sudo",
            ) from None
