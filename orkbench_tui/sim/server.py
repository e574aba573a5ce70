"""The simulated board as a server: one kernel, one chip, any number of clients.

One thread per connection, because a submit blocks. Whatever a client sends, only its own connection
suffers, and the log says so.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import select
import socket
import struct
import threading
from collections.abc import Callable
from pathlib import Path

from orkbench_tui.plain_text import one_line
from orkbench_tui.sim.answers.board import BoardAnswers
from orkbench_tui.sim.answers.device import DEVICE_ANSWERS
from orkbench_tui.sim.answers.files import FileAnswers
from orkbench_tui.sim.board_files.client_time import ClientProcesses
from orkbench_tui.sim.board_variant import STOCK, BoardVariant
from orkbench_tui.sim.clients import ROLES, Clients
from orkbench_tui.sim.machine import Machine
from orkbench_tui.sim.protocol import (
    PROTOCOL_VERSION,
    FrameError,
    Operation,
    Reply,
    Request,
    receive_request,
    send_reply,
)
from orkbench_tui.sim.session import Session
from orkbench_tui.version import VERSION

__all__ = ["Server"]

_POLL_S = 0.5


class Server:
    """Listens on ``path`` (made mode 0600 in a folder of mode 0700) until stopped or idle."""

    def __init__(
        self, path: Path, *, pace: str, idle_s: float, variant: BoardVariant = STOCK, disk: Path | None = None
    ) -> None:
        self.path = path
        self.idle_s = idle_s
        processes = ClientProcesses()
        self._machine = Machine(pace, variant, processes, disk=disk)
        self._clients = Clients(self._machine, processes)
        self._stop = threading.Event()
        self._woken, self._wake = os.pipe()
        os.set_blocking(self._wake, False)
        self._answers: dict[int, Callable[[Request, Session], Reply]] = {
            Operation.HELLO: self._hello,
            **DEVICE_ANSWERS,
            **FileAnswers(self._machine).table,
            **BoardAnswers(self._machine, self._clients, idle_s, self.stop).table,
        }

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
                while not self._stop.is_set() and not self._clients.idle_for(self.idle_s):
                    watched = [listener.fileno(), self._woken]
                    readable, _, _ = select.select(watched, [], [], min(_POLL_S, self.idle_s))
                    if listener.fileno() in readable:
                        self._accept(listener)
            finally:
                with contextlib.suppress(FileNotFoundError):
                    self.path.unlink()
                self._machine.close()

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
        session = Session(connection)
        try:
            while (request := receive_request(connection)) is not None:
                reply = self._answer(request, session)
                try:
                    send_reply(connection, reply)
                finally:
                    if reply.fd >= 0:
                        os.close(reply.fd)
        except FrameError as error:
            print(f"process {session.pid} is cut off: {one_line(str(error), 200)}", flush=True)
        except OSError:
            return
        finally:
            connection.close()
            self._clients.leave(session)

    def _answer(self, request: Request, session: Session) -> Reply:
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

    def _hello(self, request: Request, session: Session) -> Reply:
        """JSON {protocol, version, role, token, record}; answers the token of the open file."""
        hello = json.loads(request.payload)
        if hello["protocol"] != PROTOCOL_VERSION:
            text = f"it speaks protocol {PROTOCOL_VERSION} (version {VERSION}), stop it with `ork sim stop`"
            return Reply(errno.EPROTO, 0, text.encode())
        if session.role or hello["role"] not in ROLES:
            return Reply(errno.EINVAL, 0, b"role")
        try:
            token = self._clients.join(
                session, hello["role"], str(hello["token"]), str(hello.get("record", ""))
            )
        except OSError as error:
            return Reply(error.errno or errno.EIO, 0, (error.strerror or "").encode())
        return Reply(0, 0, token.encode())
