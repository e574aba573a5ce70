"""Who is connected: sessions, and open files that several connections of a program (or its children) share."""

from __future__ import annotations

import secrets
import threading
import time
from dataclasses import dataclass

from orkbench_tui.sim.board_files.client_time import ClientProcesses
from orkbench_tui.sim.kernel.dma_heap import HeapFile
from orkbench_tui.sim.kernel.open_file import OpenFile
from orkbench_tui.sim.kernel.rknpu import RknpuKernel
from orkbench_tui.sim.machine import Machine
from orkbench_tui.sim.record.recorder import Recorder
from orkbench_tui.sim.session import Session

__all__ = ["ROLES", "Clients"]

ROLES = ("device", "heap", "files")


@dataclass(eq=False, slots=True)
class _SharedFile:
    """``kernel`` is the one it was opened in."""

    file: OpenFile | HeapFile
    kernel: RknpuKernel
    recorder: Recorder | None = None
    connections: int = 0


class Clients:
    """Thread-safe. A token stands for an open file: who knows it shares the file."""

    def __init__(self, machine: Machine, processes: ClientProcesses) -> None:
        self._machine = machine
        self._processes = processes
        self._lock = threading.Lock()
        self._sessions: set[Session] = set()
        self._recorders: dict[str, Recorder] = {}
        self._shared: dict[str, _SharedFile] = {}
        self._connections = 0
        self._last_seen = time.monotonic()

    @property
    def connections(self) -> int:
        return self._connections

    @property
    def processes(self) -> int:
        return len(self._processes.pids)

    def idle_for(self, seconds: float) -> bool:
        """Whether nobody has been connected for that long."""
        with self._lock:
            return self._connections == 0 and time.monotonic() - self._last_seen > seconds

    def join(self, session: Session, role: str, token: str, record: str = "") -> str:
        """A session has said who it is; the token of its open file ("" for one that only reads files).

        Raises:
            KeyError: no open file has this token.
            OSError: the file cannot be opened; ``strerror`` says why.
        """
        with self._lock:
            if role in ("device", "heap"):
                if token:
                    shared = self._shared[token]
                else:
                    token = secrets.token_hex(16)
                    opened = self._open(session, role)
                    shared = _SharedFile(opened, self._machine.kernel, self._recorder(record))
                    self._shared[token] = shared
                shared.connections += 1
                session.file, session.opened_in = shared.file, shared.kernel
                session.recorder = shared.recorder
                self._sessions.add(session)
            session.role, session.token = role, token
            self._connections += 1
        self._processes.attach(session.pid)
        return token

    def _open(self, session: Session, role: str) -> OpenFile | HeapFile:
        kernel = self._machine.kernel
        if role == "heap":
            kernel.check_permission()
            return kernel.memory.heap.open(session.pid)
        return kernel.open(session.pid)

    def _recorder(self, path: str) -> Recorder | None:
        """The recorder of a program's file; the lock is held. A new run empties the file and gets a new one."""
        if not path:
            return None
        users = [shared for shared in self._shared.values() if shared.recorder is self._recorders.get(path)]
        if path not in self._recorders or not users:
            self._recorders[path] = Recorder(path, self._machine.kernel)
        return self._recorders[path]

    def leave(self, session: Session) -> None:
        """The connection is gone; its file is closed with the last one that shares it."""
        if not session.role:
            return
        self._processes.detach(session.pid)
        closing = None
        with self._lock:
            self._connections -= 1
            self._sessions.discard(session)
            self._last_seen = time.monotonic()
            shared = self._shared.get(session.token)
            if session.file is not None and shared is not None:
                shared.connections -= 1
                if shared.connections == 0:
                    closing = self._shared.pop(session.token)
        if closing is None:
            return
        if isinstance(closing.file, HeapFile):
            closing.kernel.memory.heap.close(closing.file)
            return
        if closing.recorder is not None:
            closing.recorder.closed(closing.file)
        closing.kernel.close(closing.file)

    def cut_off(self) -> None:
        """Close the connections of every open file; those that only read files go on with the new board."""
        with self._lock:
            sessions = list(self._sessions)
        for session in sessions:
            session.cut_off()
