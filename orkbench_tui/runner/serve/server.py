"""The server from its socket to its end: uvicorn around the application, and a queue that is emptied before it goes.

The first SIGINT, SIGTERM or SIGHUP stops taking requests and finishes those that are there; a second one, or
the end of the time allowed, drops them.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import uvicorn

from orkbench_tui.errors import BusyError, DeniedError, NoDeviceError, UsageError
from orkbench_tui.runner.serve.app import Access, make_app
from orkbench_tui.runner.serve.service import Served, Service

__all__ = ["Capacity", "address_of", "is_loopback", "listener", "serve"]

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_HEADER_BYTES = 64 << 10


@dataclass(frozen=True, slots=True)
class Capacity:
    """``queue`` requests may wait; ``slots`` conversations keep their keys and values; ``drain_s`` for the end."""

    queue: int = 128
    slots: int = 4
    drain_s: float = 60.0


def is_loopback(host: str) -> bool:
    """Whether every address of ``host`` is of this machine alone.

    Raises:
        UsageError: no such host.
    """
    return all(
        ipaddress.ip_address(str(address[4][0]).partition("%")[0]).is_loopback for address in _found(host, 0)
    )


def _found(host: str, port: int) -> list[tuple[int, int, int, str, tuple[str | int, ...]]]:
    try:
        return socket.getaddrinfo(  # type: ignore[return-value]
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
    except (OSError, UnicodeError) as error:
        raise UsageError(f"--host {host} is no address of this machine", why=str(error)) from None


def listener(host: str, port: int) -> socket.socket:
    """A socket that has the address already and answers nothing until the server runs.

    Raises:
        UsageError: no such host.
        BusyError: somebody else has the port.
        DeniedError: a port that only root may take.
    """
    family, kind, protocol, _, address = _found(host, port)[0]
    taken = socket.socket(family, kind, protocol)
    try:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(address)
    except PermissionError:
        taken.close()
        raise DeniedError(
            f"port {port} cannot be taken", why="permission denied", do="name one above 1023"
        ) from None
    except OSError as error:
        taken.close()
        raise BusyError(
            f"port {port} of {host} cannot be taken",
            why=error.strerror or str(error),
            do="stop the program that has it, or name another --port",
        ) from None
    return taken


def address_of(taken: socket.socket) -> str:
    """``http://host:port``."""
    host, port = taken.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def serve(
    served: Served,
    taken: socket.socket,
    *,
    access: Access,
    capacity: Capacity,
    ready: Callable[[], None],
    log: Callable[[str], None],
) -> bool:
    """Answer requests until a signal; True when all were answered, False when some were dropped.

    ``ready`` is called when connections are taken. For the main thread, which gets the signals.

    Raises:
        NoDeviceError: the NPU went away.
    """
    return asyncio.run(_Running(served, taken, access, capacity, ready, log).run())


class _Server(uvicorn.Server):
    """uvicorn without its signal handlers, and with a word when it takes connections."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._ready()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _ignored(number: int) -> bool:
    return signal.getsignal(number) is signal.SIG_IGN


class _Running:
    def __init__(
        self,
        served: Served,
        taken: socket.socket,
        access: Access,
        capacity: Capacity,
        ready: Callable[[], None],
        log: Callable[[str], None],
    ) -> None:
        self._taken = taken
        self._capacity = capacity
        self._log = log
        self._lost: NoDeviceError | None = None
        self._dropped = False
        self._ending = False
        self._service = Service(served, queue=capacity.queue, slots=capacity.slots, on_lost=self._note_loss)
        self._server = _Server(
            uvicorn.Config(
                make_app(self._service, access, log),
                http="h11",
                loop="asyncio",
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                h11_max_incomplete_event_size=_HEADER_BYTES,
            ),
            ready,
        )

    async def run(self) -> bool:
        self._loop = asyncio.get_running_loop()
        # Under nohup a hang-up is ignored, and stays so.
        heard = [number for number in _SIGNALS if number != signal.SIGHUP or not _ignored(number)]
        for number in heard:
            self._loop.add_signal_handler(number, self._asked_to_end)
        self._service.queue.start()
        try:
            with _logging_to(self._log):
                await self._server.serve(sockets=[self._taken])
        finally:
            # Nothing may run on the engine when the caller closes it.
            await asyncio.to_thread(self._service.queue.close, drop=True)
            for number in heard:
                self._loop.remove_signal_handler(number)
        if self._lost is not None:
            raise self._lost
        return not self._dropped

    def _asked_to_end(self) -> None:
        if self._ending:
            self._drop()
            return
        self._ending = True
        self._server.should_exit = True
        state = self._service.queue.queueing
        if left := state.waiting + state.running:
            self._log(
                f"ending: {left} answer{'' if left == 1 else 's'} first, up to {self._capacity.drain_s:g} s; again to drop them"
            )
            self._loop.call_later(self._capacity.drain_s, self._drop)

    def _drop(self) -> None:
        state = self._service.queue.queueing
        if state.waiting + state.running:
            self._dropped = True
            self._service.queue.drop()

    def _note_loss(self, error: NoDeviceError) -> None:
        """From the queue's thread."""
        self._lost = error
        self._server.should_exit = True


class _Forward(logging.Handler):
    """What uvicorn has to say, as lines of our log."""

    def __init__(self, log: Callable[[str], None]) -> None:
        super().__init__(logging.WARNING)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        self._log(record.getMessage() + (f": {type(error).__name__}: {error}" if error else ""))


@contextmanager
def _logging_to(log: Callable[[str], None]) -> Iterator[None]:
    logger = logging.getLogger("uvicorn")
    handler = _Forward(log)
    logger.addHandler(handler)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
