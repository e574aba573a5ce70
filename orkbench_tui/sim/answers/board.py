"""Answers about the board as a whole: its state, its pace, faults, restarts."""

from __future__ import annotations

import errno
import json
import os
import threading
import time
from collections.abc import Callable
from typing import Any

from orkbench_tui.sim.clients import Clients
from orkbench_tui.sim.clock import PACES
from orkbench_tui.sim.faults.catalogue import Event
from orkbench_tui.sim.machine import Machine
from orkbench_tui.sim.protocol import PROTOCOL_VERSION, Operation, Reply, Request
from orkbench_tui.sim.session import Session
from orkbench_tui.version import VERSION

__all__ = ["BoardAnswers"]


class BoardAnswers:
    """``table`` maps an operation to its answer. ``stop`` ends the server."""

    def __init__(self, machine: Machine, clients: Clients, idle_s: float, stop: Callable[[], None]) -> None:
        self._machine = machine
        self._clients = clients
        self._idle_s = idle_s
        self._stop_server = stop
        self._started = time.monotonic()
        self._control = threading.Lock()
        """Held while a fault is set or cleared or the board restarts."""
        self.table: dict[int, Callable[[Request, Session], Reply]] = {
            Operation.STATUS: self._status,
            Operation.SET_PACE: self._set_pace,
            Operation.STOP: self._stop,
            Operation.FAULT_LIST: self._fault_list,
            Operation.FAULT_SET: self._fault_set,
            Operation.FAULT_CLEAR: self._fault_clear,
            Operation.RESTART: self._restart,
        }

    def _status(self, request: Request, session: Session) -> Reply:
        """JSON, see ``lifecycle.SimStatus``."""
        machine, kernel = self._machine, self._machine.kernel
        scheduler = kernel.scheduler
        status: dict[str, Any] = {
            "protocol": PROTOCOL_VERSION,
            "version": VERSION,
            "pid": os.getpid(),
            "uptime_s": time.monotonic() - self._started,
            "pace": machine.clock.pace,
            "idle_s": self._idle_s,
            "clients": self._clients.processes,
            "connections": self._clients.connections,
            "open_files": len(kernel.files),
            "jobs_done": scheduler.jobs_done,
            "jobs_failed": scheduler.jobs_failed,
            "resets": scheduler.resets,
            "npu_bytes": kernel.memory.held,
            "wedged": kernel.wedged,
            "sram": kernel.variant.sram,
            "patch_import_domain": kernel.variant.patch_import_domain,
            "leaked_mappings": kernel.domains.leaked_mappings,
            "board": kernel.variant.board,
            "driver": kernel.driver.name if kernel.profile.driver else "",
            "boots": machine.boots,
            "faults": machine.faults.all(),
            "disk": str(machine.disk.folder) if machine.disk else "",
            "release": machine.release,
        }
        return Reply(0, 0, json.dumps(status).encode())

    def _set_pace(self, request: Request, session: Session) -> Reply:
        pace = request.payload.decode()
        if pace not in PACES:
            return Reply(errno.EINVAL, 0, b"")
        self._machine.clock.pace = pace
        return self._status(request, session)

    def _stop(self, request: Request, session: Session) -> Reply:
        reply = self._status(request, session)
        self._stop_server()
        return reply

    def _fault_list(self, request: Request, session: Session) -> Reply:
        return Reply(0, 0, json.dumps({"faults": self._machine.fault_list()}).encode())

    def _fault_set(self, request: Request, session: Session) -> Reply:
        """The payload is NAME or NAME=VALUE."""
        with self._control:
            if self._machine.set_fault(request.payload.decode()):
                self._clients.cut_off()
        return self._fault_list(request, session)

    def _fault_clear(self, request: Request, session: Session) -> Reply:
        with self._control:
            if self._machine.clear_fault(request.payload.decode()):
                self._clients.cut_off()
        return self._fault_list(request, session)

    def _restart(self, request: Request, session: Session) -> Reply:
        """The payload is ``reboot`` or ``power cycle``; programs lose their device."""
        with self._control:
            self._machine.restart(Event(request.payload.decode()))
            self._clients.cut_off()
        return self._status(request, session)
