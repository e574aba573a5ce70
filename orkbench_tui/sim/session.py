"""One connection to the simulated board: who is at the other end, and the open file it speaks for."""

from __future__ import annotations

import contextlib
import errno
import socket
import struct

from orkbench_tui.sim.kernel.dma_heap import HeapFile
from orkbench_tui.sim.kernel.open_file import OpenFile
from orkbench_tui.sim.kernel.rknpu import RknpuKernel
from orkbench_tui.sim.record.recorder import Recorder

__all__ = ["Session"]

_CREDENTIALS = struct.Struct("3i")


class Session:
    """``role`` is "" until it has said hello, then ``device``, ``heap`` or ``files``."""

    def __init__(self, connection: socket.socket) -> None:
        credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        self.pid = _CREDENTIALS.unpack(credentials)[0]
        self.role = ""
        self.token = ""
        self.file: OpenFile | HeapFile | None = None
        self.opened_in: RknpuKernel | None = None
        self.recorder: Recorder | None = None
        self._connection = connection

    def cut_off(self) -> None:
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)

    @property
    def kernel(self) -> RknpuKernel:
        """The one the file was opened in: after a restart there is another. Raises OSError(EBADF)."""
        if self.opened_in is None:
            raise OSError(errno.EBADF, "no open file on this connection")
        return self.opened_in

    def heap(self) -> HeapFile:
        """Raises OSError(EBADF)."""
        if not isinstance(self.file, HeapFile):
            raise OSError(errno.EBADF, "no open heap on this connection")
        return self.file

    def device(self) -> OpenFile:
        """Raises OSError(EBADF)."""
        if not isinstance(self.file, OpenFile):
            raise OSError(errno.EBADF, "no open file on this connection")
        return self.file
