"""The simulated board as a server: one kernel, one chip, any number of clients.

One thread per connection, because a submit blocks. Whatever a client sends, only its own connection
suffers.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import secrets
import select
import socket
import struct
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orkbench_tui.sim.board_files.client_time import ClientProcesses
from orkbench_tui.sim.board_files.tree import BoardTree
from orkbench_tui.sim.board_variant import STOCK, BoardVariant
from orkbench_tui.sim.clock import PACES, BoardClock
from orkbench_tui.sim.faults.catalogue import Event
from orkbench_tui.sim.kernel.dma_heap import HeapFile
from orkbench_tui.sim.kernel.open_file import OpenFile
from orkbench_tui.sim.kernel.rknpu import RknpuKernel
from orkbench_tui.sim.machine import Machine
from orkbench_tui.sim.protocol import (
    PROTOCOL_VERSION,
    FrameError,
    Operation,
    Reply,
    Request,
    pack_readings,
    pack_strings,
    receive_request,
    send_reply,
)
from orkbench_tui.sim.record.recorder import Recorder
from orkbench_tui.version import VERSION

__all__ = ["Server"]

_CREDENTIALS = struct.Struct("3i")
_POLL_S = 0.5


@dataclass(eq=False, slots=True)
class _SharedFile:
    """``kernel`` is the one it was opened in: after a restart there is another."""

    file: OpenFile | HeapFile
    kernel: RknpuKernel
    recorder: Recorder | None = None
    connections: int = 0


class Server:
    """Listens on ``path`` (made mode 0600 in a folder of mode 0700) until stopped or idle."""

    def __init__(
        self, path: Path, *, pace: str, idle_s: float, variant: BoardVariant = STOCK, disk: Path | None = None
    ) -> None:
        self.path = path
        self.idle_s = idle_s
        self._processes = ClientProcesses()
        self._machine = Machine(pace, variant, self._processes, disk=disk)
        self._control = threading.Lock()
        """Held while a fault is set or cleared or the board restarts."""
        self._sessions: set[_Session] = set()
        self._recorders: dict[str, Recorder] = {}
        self._shared: dict[str, _SharedFile] = {}
        self._lock = threading.Lock()
        self._clients = 0
        self._last_client = time.monotonic()
        self._started = time.monotonic()
        self._stop = threading.Event()
        self._woken, self._wake = os.pipe()
        os.set_blocking(self._wake, False)
        self._answers: dict[int, Callable[[Request, _Session], Reply]] = {
            Operation.HELLO: self._hello,
            Operation.STATUS: self._status,
            Operation.IOCTL: self._ioctl,
            Operation.MMAP: self._mmap,
            Operation.READ: self._read,
            Operation.LIST: self._list,
            Operation.READLINK: self._readlink,
            Operation.KERNEL_LOG: self._kernel_log,
            Operation.SET_PACE: self._set_pace,
            Operation.STOP: self._stop_request,
            Operation.HEAP_ALLOCATE: self._heap_allocate,
            Operation.HEAP_SYNC: self._heap_sync,
            Operation.HEAP_RELEASE: self._heap_release,
            Operation.WRITE: self._write,
            Operation.SYNC: self._sync,
            Operation.FAULT_LIST: self._fault_list,
            Operation.FAULT_SET: self._fault_set,
            Operation.FAULT_CLEAR: self._fault_clear,
            Operation.RESTART: self._restart,
            Operation.TERMINATE: self._terminate,
        }

    @property
    def _kernel(self) -> RknpuKernel:
        return self._machine.kernel

    @property
    def _clock(self) -> BoardClock:
        return self._machine.clock

    @property
    def _tree(self) -> BoardTree:
        return self._machine.tree

    def stop(self) -> None:
        """End ``serve`` soon; may be called from any thread and from a signal handler."""
        self._stop.set()
        os.write(self._wake, b"x")

    def serve(self, ready: Callable[[], None] = lambda: None) -> None:
        """Accept clients until ``stop`` is called or nobody has been connected for ``idle_s``."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
            with contextlib.suppress(FileNotFoundError):
                self.path.unlink()
            listener.bind(str(self.path))
            self.path.chmod(0o600)
            listener.listen(64)
            ready()
            try:
                while not self._stop.is_set() and not self._idle():
                    watched = [listener.fileno(), self._woken]
                    readable, _, _ = select.select(watched, [], [], min(_POLL_S, self.idle_s))
                    if listener.fileno() in readable:
                        self._accept(listener)
            finally:
                with contextlib.suppress(FileNotFoundError):
                    self.path.unlink()
                self._kernel.shut_down()

    def _idle(self) -> bool:
        with self._lock:
            return self._clients == 0 and time.monotonic() - self._last_client > self.idle_s

    def _accept(self, listener: socket.socket) -> None:
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        try:
            threading.Thread(target=self._serve_one, args=(connection,), daemon=True).start()
        except RuntimeError:
            connection.close()

    def _serve_one(self, connection: socket.socket) -> None:
        session = _Session(connection)
        try:
            while (request := receive_request(connection)) is not None:
                reply = self._answer(request, session)
                try:
                    send_reply(connection, reply)
                finally:
                    if reply.fd >= 0:
                        os.close(reply.fd)
        except (FrameError, OSError):
            return
        finally:
            connection.close()
            self._leave(session)

    def _answer(self, request: Request, session: _Session) -> Reply:
        handler = self._answers.get(request.operation)
        if handler is None:
            return Reply(errno.ENOSYS, 0, b"")
        try:
            return handler(request, session)
        except OSError as error:
            return Reply(error.errno or errno.EIO, 0, b"")
        except (ValueError, KeyError, TypeError, OverflowError, struct.error):
            return Reply(errno.EINVAL, 0, b"")
        except RecursionError:
            return Reply(errno.EINVAL, 0, b"")
        except MemoryError:
            return Reply(errno.ENOMEM, 0, b"")

    # -- connections ------------------------------------------------------------------------------

    def _hello(self, request: Request, session: _Session) -> Reply:
        """JSON {protocol, version, role, token}; answers the token of the open file."""
        hello = json.loads(request.payload)
        if hello["protocol"] != PROTOCOL_VERSION:
            text = f"it speaks protocol {PROTOCOL_VERSION} (version {VERSION}), stop it with `ork sim stop`"
            return Reply(errno.EPROTO, 0, text.encode())
        if session.role or hello["role"] not in ("device", "heap", "files"):
            return Reply(errno.EINVAL, 0, b"role")
        with self._lock:
            token = str(hello["token"])
            if hello["role"] in ("device", "heap"):
                if token:
                    shared = self._shared[token]
                else:
                    token = secrets.token_hex(16)
                    try:
                        opened = self._open(session, hello["role"])
                    except OSError as error:
                        return Reply(error.errno or errno.EIO, 0, (error.strerror or "").encode())
                    recorder = self._recorder(str(hello.get("record", "")))
                    shared = self._shared[token] = _SharedFile(opened, self._kernel, recorder)
                shared.connections += 1
                session.file, session.kernel = shared.file, shared.kernel
                session.recorder = shared.recorder
                self._sessions.add(session)
            session.role, session.token = hello["role"], token
            self._clients += 1
        self._processes.attach(session.pid)
        return Reply(0, 0, token.encode())

    def _recorder(self, path: str) -> Recorder | None:
        """The recorder of a program's file; the lock is held. A new run empties the file and gets a new one."""
        if not path:
            return None
        users = [shared for shared in self._shared.values() if shared.recorder is self._recorders.get(path)]
        if path not in self._recorders or not users:
            self._recorders[path] = Recorder(path, self._kernel)
        return self._recorders[path]

    def _open(self, session: _Session, role: str) -> OpenFile | HeapFile:
        if role == "heap":
            self._kernel.check_permission()
            return self._kernel.memory.heap.open(session.pid)
        return self._kernel.open(session.pid)

    def _leave(self, session: _Session) -> None:
        if not session.role:
            return
        self._processes.detach(session.pid)
        closing = None
        with self._lock:
            self._clients -= 1
            self._sessions.discard(session)
            self._last_client = time.monotonic()
            shared = self._shared.get(session.token)
            if session.file is not None and shared is not None:
                shared.connections -= 1
                if shared.connections == 0:
                    closing = self._shared.pop(session.token)
        if closing is None:
            return
        if closing.recorder is not None and isinstance(closing.file, OpenFile):
            closing.recorder.closed(closing.file)
        if isinstance(closing.file, OpenFile):
            closing.kernel.close(closing.file)
        else:
            closing.kernel.memory.heap.close(closing.file)

    def _status(self, request: Request, session: _Session) -> Reply:
        scheduler = self._kernel.scheduler
        with self._lock:
            status: dict[str, Any] = {
                "protocol": PROTOCOL_VERSION,
                "version": VERSION,
                "pid": os.getpid(),
                "uptime_s": time.monotonic() - self._started,
                "pace": self._clock.pace,
                "idle_s": self.idle_s,
                "clients": len(self._processes.pids),
                "connections": self._clients,
                "open_files": len(self._kernel.files),
                "jobs_done": scheduler.jobs_done,
                "jobs_failed": scheduler.jobs_failed,
                "resets": scheduler.resets,
                "npu_bytes": self._kernel.memory.held,
                "wedged": self._kernel.wedged,
                "sram": self._kernel.variant.sram,
                "patch_import_domain": self._kernel.variant.patch_import_domain,
                "leaked_mappings": self._kernel.domains.leaked_mappings,
                "board": self._kernel.variant.board,
                "driver": self._kernel.driver.name if self._kernel.profile.driver else "",
                "boots": self._machine.boots,
                "faults": self._machine.faults.all(),
                "disk": str(self._machine.disk.folder) if self._machine.disk else "",
                "release": self._machine.release,
            }
        return Reply(0, 0, json.dumps(status).encode())

    def _set_pace(self, request: Request, session: _Session) -> Reply:
        pace = request.payload.decode()
        if pace not in PACES:
            return Reply(errno.EINVAL, 0, b"")
        self._clock.pace = pace
        return self._status(request, session)

    def _stop_request(self, request: Request, session: _Session) -> Reply:
        reply = self._status(request, session)
        self.stop()
        return reply

    # -- faults and restarts ----------------------------------------------------------------------

    def _fault_list(self, request: Request, session: _Session) -> Reply:
        return Reply(0, 0, json.dumps({"faults": self._machine.fault_list()}).encode())

    def _fault_set(self, request: Request, session: _Session) -> Reply:
        """The payload is NAME or NAME=VALUE."""
        with self._control:
            if self._machine.set_fault(request.payload.decode()):
                self._cut_off()
        return self._fault_list(request, session)

    def _fault_clear(self, request: Request, session: _Session) -> Reply:
        with self._control:
            if self._machine.clear_fault(request.payload.decode()):
                self._cut_off()
        return self._fault_list(request, session)

    def _restart(self, request: Request, session: _Session) -> Reply:
        """The payload is ``reboot`` or ``power cycle``; programs lose their device."""
        with self._control:
            self._machine.restart(Event(request.payload.decode()))
            self._cut_off()
        return self._status(request, session)

    def _cut_off(self) -> None:
        """Close the connections of every open file; those that only read files go on with the new board."""
        with self._lock:
            sessions = list(self._sessions)
        for session in sessions:
            session.cut_off()

    @staticmethod
    def _kernel_of(session: _Session) -> RknpuKernel:
        if session.kernel is None:
            raise OSError(errno.EBADF, "no open file on this connection")
        return session.kernel

    # -- device -----------------------------------------------------------------------------------

    def _ioctl(self, request: Request, session: _Session) -> Reply:
        """``a`` is the ioctl number; the payload goes in and comes out, on failure too.

        ``b`` identifies the descriptor a PRIME call names.
        """
        file = session.device()
        argument = bytearray(request.payload)
        kernel, recorder = self._kernel_of(session), session.recorder
        submit = recorder.is_submit(request.a) if recorder is not None else False
        met = recorder.before_submit(kernel, file, request.payload) if recorder is not None and submit else {}
        value = failed = 0
        try:
            value = kernel.ioctl(file, request.a, argument, request.b)
        except OSError as error:
            failed = error.errno or errno.EIO
        if recorder is not None and submit:
            recorder.after_submit(met, bytes(argument), failed)
        elif recorder is not None:
            recorder.called(file, request.a, request.payload, bytes(argument), failed, request.b)
        return Reply(failed, value, bytes(argument))

    def _mmap(self, request: Request, session: _Session) -> Reply:
        """``a`` is the offset, ``b`` the length; the reply carries the memfd."""
        return Reply(0, 0, b"", self._kernel_of(session).map_fd(session.device(), request.a, request.b))

    def _heap_allocate(self, request: Request, session: _Session) -> Reply:
        """``a`` is the size; the reply's value is the size in whole pages, its descriptor the buffer."""
        buffer = self._kernel_of(session).memory.heap.allocate(session.heap(), request.a)
        if session.recorder is not None:
            session.recorder.heap("heap", buffer.identity, buffer.size)
        return Reply(0, buffer.size, b"", os.dup(buffer.fd))

    def _heap_sync(self, request: Request, session: _Session) -> Reply:
        """``a`` identifies the buffer, ``b`` holds the flags of DMA_BUF_IOCTL_SYNC."""
        session.heap()
        self._kernel_of(session).memory.heap.sync(request.a, request.b)
        return Reply(0, 0, b"")

    def _heap_release(self, request: Request, session: _Session) -> Reply:
        """``a`` identifies the buffer whose descriptor the client has closed."""
        self._kernel_of(session).memory.heap.release(session.heap(), request.a)
        if session.recorder is not None:
            session.recorder.heap("heap-release", request.a)
        return Reply(0, 0, b"")

    # -- files ------------------------------------------------------------------------------------

    def _read(self, request: Request, session: _Session) -> Reply:
        paths = [os.fsdecode(path) for path in request.payload.split(b"\0")]
        return Reply(0, 0, pack_readings(self._tree.read_many(paths)))

    def _list(self, request: Request, session: _Session) -> Reply:
        return Reply(0, 0, pack_strings(self._tree.list(os.fsdecode(request.payload))))

    def _readlink(self, request: Request, session: _Session) -> Reply:
        target = self._tree.readlink(os.fsdecode(request.payload))
        return Reply(0, int(target is not None), os.fsencode(target or ""))

    def _kernel_log(self, request: Request, session: _Session) -> Reply:
        return Reply(0, 0, b"".join(record + b"\0" for record in self._tree.kernel_log(request.a)))

    def _write(self, request: Request, session: _Session) -> Reply:
        """The payload is the path, a NUL and the bytes."""
        path, _, data = request.payload.partition(b"\0")
        self._tree.write(os.fsdecode(path), data)
        return Reply(0, 0, b"")

    def _terminate(self, request: Request, session: _Session) -> Reply:
        """``a`` is the process."""
        self._tree.terminate(request.a)
        return Reply(0, 0, b"")

    def _sync(self, request: Request, session: _Session) -> Reply:
        self._tree.sync()
        return Reply(0, 0, b"")


class _Session:
    """One connection: who is at the other end, and the open file it speaks for."""

    def __init__(self, connection: socket.socket) -> None:
        credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        self.pid = _CREDENTIALS.unpack(credentials)[0]
        self.role = ""
        self.token = ""
        self.file: OpenFile | HeapFile | None = None
        self.kernel: RknpuKernel | None = None
        self.recorder: Recorder | None = None
        self._connection = connection

    def cut_off(self) -> None:
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)

    def heap(self) -> HeapFile:
        if not isinstance(self.file, HeapFile):
            raise OSError(errno.EBADF, "no open heap on this connection")
        return self.file

    def device(self) -> OpenFile:
        if not isinstance(self.file, OpenFile):
            raise OSError(errno.EBADF, "no open file on this connection")
        return self.file
