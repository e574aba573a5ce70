"""The client's side of the simulated board: a device and its files, over the socket.

A device may be used from several threads: each call borrows a connection of its own, so that a
blocking submit holds only its caller. All of them are one open file on the board's side.
"""

from __future__ import annotations

import contextlib
import errno
import json
import mmap
import os
import select
import socket
import threading
import time
from pathlib import Path
from typing import Any

from orkbench_tui.driver import uapi
from orkbench_tui.errors import DeniedError, NoDriverError
from orkbench_tui.ops.files import Access, Reading
from orkbench_tui.sim.drm_version import fill_version_strings
from orkbench_tui.sim.protocol import (
    PROTOCOL_VERSION,
    FrameError,
    Operation,
    Reply,
    receive_reply,
    send_request,
    unpack_readings,
    unpack_strings,
)
from orkbench_tui.version import VERSION

__all__ = ["SimBoardFiles", "SimDevice", "SimDmaHeap", "call_once", "leave"]

CONNECT_TIMEOUT_S = 5.0
PATIENCE_S = 5.0
"""After this long without a reply the board is asked whether it is there: a job may take long, a status may not."""

_LOOK_S = 0.25
_leaving = threading.Event()

Records = list[bytes]


def leave() -> None:
    """Stop waiting for replies, now and from now on: for a program that ends while jobs run.

    On hardware a program must not go before its jobs have; the simulated board keeps their memory itself.
    """
    _leaving.set()


def _gone(path: Path, reason: object) -> OSError:
    return OSError(errno.ENODEV, f"the simulated board at {path} is gone ({reason})")


class _Connections:
    """Connections of one role and token, opened when needed and used by one call at a time."""

    def __init__(self, path: Path, role: str) -> None:
        self._path = path
        self._role = role
        self._idle: list[socket.socket] = []
        self._lock = threading.Lock()
        self._token = ""
        self._pid = os.getpid()
        self._dead: OSError | None = None
        self._put(self._open())

    def _open(self) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.settimeout(CONNECT_TIMEOUT_S)
            connection.connect(str(self._path))
            hello = {
                "protocol": PROTOCOL_VERSION,
                "version": VERSION,
                "role": self._role,
                "token": self._token,
            }
            reply = _exchange(connection, Operation.HELLO, payload=json.dumps(hello).encode())
            connection.settimeout(None)
        except (OSError, FrameError) as error:
            connection.close()
            raise _gone(self._path, error) from error
        if reply.error:
            connection.close()
            raise OSError(
                reply.error, f"the simulated board refused the connection: {reply.payload.decode()}"
            )
        self._token = reply.payload.decode()
        return connection

    def _take(self) -> socket.socket:
        if self._dead is not None:
            raise OSError(*self._dead.args)
        if self._pid != os.getpid():
            raise OSError(errno.ENODEV, "the simulated device belongs to the parent process")
        try:
            return self._idle.pop()
        except IndexError:
            with self._lock:
                return self._open()

    def _put(self, connection: socket.socket) -> None:
        if self._dead is None:
            self._idle.append(connection)
        else:
            connection.close()

    def call(
        self, operation: Operation, a: int = 0, b: int = 0, payload: bytes = b"", with_fd: bool = False
    ) -> Reply:
        """One request and its reply. Raises OSError(ENODEV), now and from then on, when the board is gone."""
        try:
            connection = self._take()
        except OSError as error:
            if error.errno == errno.ENODEV and self._pid == os.getpid():
                self._dead = error
            raise
        try:
            send_request(connection, operation, a, b, payload)
            self._await_reply(connection)
            reply = receive_reply(connection, with_fd)
        except (OSError, FrameError) as error:
            connection.close()
            self._dead = _gone(self._path, error)
            raise self._dead from error
        except BaseException:
            # Interrupted between request and reply: the connection no longer knows whose turn it is.
            connection.close()
            raise
        self._put(connection)
        return reply

    def _await_reply(self, connection: socket.socket) -> None:
        """Wait as long as it takes, but only for a board that still answers.

        Raises:
            FrameError: it was stopped or hangs, or ``leave`` was called.
        """
        waiting = select.poll()
        waiting.register(connection, select.POLLIN)
        asked = time.monotonic()
        while not waiting.poll(_LOOK_S * 1000):
            if _leaving.is_set():
                raise FrameError("this program ends")
            if time.monotonic() - asked < PATIENCE_S:
                continue
            asked = time.monotonic()
            try:
                call_once(self._path, Operation.STATUS)
            except OSError as error:
                raise FrameError("it does not answer") from error

    def close(self) -> None:
        self._dead = self._dead or OSError(errno.ENODEV, "the simulated device is closed")
        while self._idle:
            self._idle.pop().close()


def _exchange(
    connection: socket.socket,
    operation: Operation,
    a: int = 0,
    b: int = 0,
    payload: bytes = b"",
    with_fd: bool = False,
) -> Reply:
    send_request(connection, operation, a, b, payload)
    return receive_reply(connection, with_fd)


def call_once(path: Path, operation: Operation, payload: bytes = b"") -> dict[str, Any]:
    """Ask a board something outside any open file (STATUS, SET_PACE, STOP); the answer is a JSON object.

    Raises:
        OSError: nobody answers, or the board refuses.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(CONNECT_TIMEOUT_S)
        connection.connect(str(path))
        try:
            reply = _exchange(connection, operation, payload=payload)
            answer = json.loads(reply.payload) if reply.payload else {}
        except (FrameError, ValueError) as error:
            raise OSError(errno.EPROTO, f"no answer from a simulated board: {error}") from error
        if reply.error:
            raise OSError(reply.error, reply.payload.decode(errors="replace"))
        if not isinstance(answer, dict):
            raise OSError(errno.EPROTO, "no answer from a simulated board")
        return answer


def _refused(error: OSError) -> Exception:
    """What opening the node ends with: typed where the board refuses, as the error itself else."""
    if error.errno == errno.EACCES:
        return DeniedError(
            "no permission on the simulated NPU",
            why=error.strerror or "",
            do="`ork sim fault clear permission-denied` opens it again",
        )
    if error.errno == errno.ENOENT and "not bound" in (error.strerror or ""):
        return NoDriverError(
            "no rknpu NPU on the simulated board",
            why="the rknpu driver is not bound to its device",
            do="`ork board resume` where a rebind was interrupted, else `ork sim reboot`",
        )
    if error.errno == errno.ENODEV and "rknpu driver" in (error.strerror or ""):
        return NoDriverError(
            "no rknpu NPU on the simulated board",
            why=error.strerror or "",
            do="`ork sim stop`, then `ork sim start` for a board with the vendor kernel",
        )
    return error


class SimDevice:
    """An open file of the simulated NPU; implements ``driver.device.Device``."""

    def __init__(self, socket_path: Path | str) -> None:
        self.name = "the simulated NPU"
        try:
            self._connections = _Connections(Path(socket_path), "device")
        except OSError as error:
            raise _refused(error) from error

    def ioctl(self, request: int, argument: bytearray) -> int:
        if request == uapi.DRM_IOCTL_VERSION:
            return fill_version_strings(argument, lambda asked: self._ioctl(request, asked))
        return self._ioctl(request, argument)

    def _ioctl(self, request: int, argument: bytearray) -> int:
        named = 0
        if request == uapi.DRM_IOCTL_PRIME_FD_TO_HANDLE:
            named = os.fstat(uapi.PrimeHandle.from_buffer_copy(argument).fd).st_ino
        reply = self._connections.call(Operation.IOCTL, request, named, bytes(argument))
        argument[: len(reply.payload)] = reply.payload
        if reply.error:
            raise OSError(reply.error, os.strerror(reply.error))
        return reply.value

    def mmap(self, offset: int, length: int) -> mmap.mmap:
        reply = self._connections.call(Operation.MMAP, offset, length, with_fd=True)
        if reply.error or reply.fd < 0:
            raise OSError(reply.error or errno.EPROTO, os.strerror(reply.error or errno.EPROTO))
        try:
            return mmap.mmap(reply.fd, length)
        finally:
            os.close(reply.fd)

    def close(self) -> None:
        self._connections.close()


class _SimDmaBuffer:
    """A buffer of the simulated heap; implements ``driver.dma_heap.DmaBuffer``."""

    def __init__(self, connections: _Connections, fd: int, size: int) -> None:
        self._connections = connections
        self._identity = os.fstat(fd).st_ino
        self.fd = fd
        self.size = size
        self.mapping = mmap.mmap(fd, size)

    def sync(self, flags: uapi.DmaBufSyncFlag) -> None:
        _checked(self._connections.call(Operation.HEAP_SYNC, self._identity, int(flags)))

    def close(self) -> None:
        if self.fd < 0:
            return
        os.close(self.fd)
        self.fd = -1
        with contextlib.suppress(OSError):
            self._connections.call(Operation.HEAP_RELEASE, self._identity)


class SimDmaHeap:
    """An open file of the simulated dma-heap; implements ``driver.dma_heap.DmaHeap``."""

    name = "the simulated dma-heap"

    def __init__(self, socket_path: Path | str) -> None:
        self._connections = _Connections(Path(socket_path), "heap")

    def allocate(self, size: int) -> _SimDmaBuffer:
        reply = _checked(self._connections.call(Operation.HEAP_ALLOCATE, size, with_fd=True))
        if reply.fd < 0:
            raise OSError(errno.EPROTO, os.strerror(errno.EPROTO))
        try:
            return _SimDmaBuffer(self._connections, reply.fd, reply.value)
        except OSError:
            os.close(reply.fd)
            raise

    def close(self) -> None:
        self._connections.close()


def _checked(reply: Reply) -> Reply:
    """Raises OSError with the errno of a refusal."""
    if reply.error:
        raise OSError(reply.error, os.strerror(reply.error))
    return reply


class SimBoardFiles:
    """The simulated board's files; implements ``ops.files.BoardFiles`` and ``BoardWriter``.

    Reads of a board that has gone raise OSError(ENODEV); they never answer from memory.
    """

    label = "sim"

    def __init__(self, socket_path: Path | str) -> None:
        self._path = Path(socket_path)
        self._connections = _Connections(self._path, "files")

    @property
    def detail(self) -> str:
        """The board's pace now, ``fast`` or ``real``: it tells what a load is a share of."""
        try:
            return str(json.loads(self._ask(Operation.STATUS).payload)["pace"])
        except (ValueError, KeyError, TypeError) as error:
            raise OSError(errno.EPROTO, f"no status from the simulated board: {error}") from error

    def _ask(self, operation: Operation, a: int = 0, payload: bytes = b"") -> Reply:
        reply = self._connections.call(operation, a, 0, payload)
        if reply.error:
            raise OSError(reply.error, os.strerror(reply.error))
        return reply

    def read(self, path: str) -> Reading:
        return self.read_many([path])[0]

    def read_many(self, paths: list[str]) -> list[Reading]:
        if not paths:
            return []
        sendable = [path for path in paths if path and "\0" not in path]
        found: dict[str, Reading] = {}
        if sendable:
            reply = self._ask(Operation.READ, payload=b"\0".join(os.fsencode(path) for path in sendable))
            try:
                found = {reading.path: reading for reading in unpack_readings(reply.payload, sendable)}
            except FrameError as error:
                raise OSError(errno.EPROTO, str(error)) from error
        absent = {path: Reading(path, Access.ABSENT, errno_name="ENOENT") for path in paths}
        return [found.get(path, absent[path]) for path in paths]

    def list(self, path: str) -> list[str]:
        return unpack_strings(self._ask(Operation.LIST, payload=os.fsencode(path)).payload)

    def readlink(self, path: str) -> str | None:
        reply = self._ask(Operation.READLINK, payload=os.fsencode(path))
        return os.fsdecode(reply.payload) if reply.value else None

    def kernel_log(self, after_sequence: int = -1) -> Records:
        payload = self._ask(Operation.KERNEL_LOG, after_sequence).payload
        return payload.split(b"\0")[:-1]

    def write(self, path: str, data: bytes) -> None:
        """``ops.files.BoardWriter``: raises OSError with the errno the board's kernel answers."""
        if not path or "\0" in path:
            raise OSError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        self._ask(Operation.WRITE, payload=os.fsencode(path) + b"\0" + data)

    def sync(self) -> None:
        self._ask(Operation.SYNC)

    def terminate(self, pid: int) -> None:
        """``ops.files.BoardWriter``: the process is the board's, not one of this machine with that number."""
        self._ask(Operation.TERMINATE, pid)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._connections.close()
