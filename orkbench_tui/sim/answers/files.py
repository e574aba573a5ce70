"""Answers about the board's files and processes."""

from __future__ import annotations

import os
from collections.abc import Callable

from orkbench_tui.sim.machine import Machine
from orkbench_tui.sim.protocol import Operation, Reply, Request, pack_readings, pack_strings
from orkbench_tui.sim.session import Session

__all__ = ["FileAnswers"]


class FileAnswers:
    """``table`` maps an operation to its answer."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self.table: dict[int, Callable[[Request, Session], Reply]] = {
            Operation.READ: self._read,
            Operation.LIST: self._list,
            Operation.READLINK: self._readlink,
            Operation.KERNEL_LOG: self._kernel_log,
            Operation.WRITE: self._write,
            Operation.SYNC: self._sync,
            Operation.TERMINATE: self._terminate,
        }

    def _read(self, request: Request, session: Session) -> Reply:
        """The payload is paths with NULs between them."""
        paths = [os.fsdecode(path) for path in request.payload.split(b"\0")]
        return Reply(0, 0, pack_readings(self._machine.tree.read_many(paths)))

    def _list(self, request: Request, session: Session) -> Reply:
        return Reply(0, 0, pack_strings(self._machine.tree.list(os.fsdecode(request.payload))))

    def _readlink(self, request: Request, session: Session) -> Reply:
        target = self._machine.tree.readlink(os.fsdecode(request.payload))
        return Reply(0, int(target is not None), os.fsencode(target or ""))

    def _kernel_log(self, request: Request, session: Session) -> Reply:
        """``a`` is the sequence number of the last record the client has."""
        records = self._machine.tree.kernel_log(request.a)
        return Reply(0, 0, b"".join(record + b"\0" for record in records))

    def _write(self, request: Request, session: Session) -> Reply:
        """The payload is the path, a NUL and the bytes."""
        path, _, data = request.payload.partition(b"\0")
        self._machine.tree.write(os.fsdecode(path), data)
        return Reply(0, 0, b"")

    def _sync(self, request: Request, session: Session) -> Reply:
        self._machine.tree.sync()
        return Reply(0, 0, b"")

    def _terminate(self, request: Request, session: Session) -> Reply:
        """``a`` is the process."""
        self._machine.tree.terminate(request.a)
        return Reply(0, 0, b"")
