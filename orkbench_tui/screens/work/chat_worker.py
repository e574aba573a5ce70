"""One open model on a thread of its own: it answers, can be stopped, and lets go of the NPU when told to."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass

from orkbench_tui.plain_text import streamed
from orkbench_tui.screens.services import ChatSession, Services
from orkbench_tui.screens.work.background import Post, failure_line, start

__all__ = ["ChatEvents", "ChatWorker"]


@dataclass(frozen=True, slots=True)
class ChatEvents:
    """What the screen is told, on its own thread. ``context`` gets tokens used and tokens there are."""

    progress: Callable[[str], None]
    opened: Callable[[str], None]
    text: Callable[[str], None]
    answered: Callable[[str, str], None]
    failed: Callable[[str], None]
    closed: Callable[[str], None]
    context: Callable[[int, int], None]


class ChatWorker:
    """At most one model at a time; ``state`` is closed, opening, ready, answering or closing."""

    def __init__(self, services: Services, post: Post, events: ChatEvents) -> None:
        self._services, self._post, self._events = services, post, events
        self._orders: queue.Queue[tuple[str, str]] = queue.Queue()
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._pieces: list[str] = []
        self._kept: ChatSession | None = None
        self.state = "closed"
        self.model = ""

    def open(self, model: str) -> None:
        """Open a model. Only when ``state`` is closed."""
        if model != self.model:
            self._kept = None
        self.state, self.model = "opening", model
        self._orders = queue.Queue()
        self._stop.clear()
        start("chat", lambda: self._live(model))

    def ask(self, question: str) -> None:
        self._stop.clear()
        self.state = "answering"
        self._orders.put(("ask", question))

    def stop(self) -> None:
        """End the answer before its next token."""
        self._stop.set()

    def clear(self) -> None:
        self._kept = None
        self._orders.put(("clear", ""))

    def close(self) -> None:
        self._kept = None
        if self.state != "closed":
            self.state = "closing"
            self._stop.set()
            self._orders.put(("close", ""))

    # on the thread

    def _live(self, model: str) -> None:
        why = ""
        try:
            with self._services.chat(model, self._progress, self._kept) as session:
                self._tell(lambda: self._is_open(session.title))
                self._count(session)
                self._obey(session)
        except Exception as error:  # noqa: BLE001 - the screen must learn why there is no model, whatever it was
            why = failure_line(error)
        self._tell(lambda: self._is_closed(why))

    def _obey(self, session: ChatSession) -> None:
        while True:
            order, text = self._orders.get()
            if order == "close":
                return
            if order == "clear":
                session.reset()
            else:
                self._answer(session, text)
            self._count(session)

    def _answer(self, session: ChatSession, question: str) -> None:
        from orkbench_tui.errors import NoDeviceError, OrkError, UnhealthyError

        try:
            reply = session.ask(question, self._piece, self._stop.is_set)
        except (NoDeviceError, UnhealthyError) as error:
            # The NPU behind this session is gone: it is closed, and the next question opens it again.
            self._kept = session
            raise NoDeviceError(
                error.what, why=error.why, do="the conversation is kept; a question opens the NPU again"
            ) from error
        except (OrkError, OSError, MemoryError) as error:
            text = failure_line(error)
            self._tell(lambda: self._ready(lambda: self._events.failed(text)))
        else:
            self._tell(lambda: self._ready(lambda: self._events.answered(reply.figures, reply.note)))

    def _piece(self, text: str) -> None:
        """Gathers text while the screen is busy, so that a fast model cannot flood it."""
        with self._lock:
            self._pieces.append(text)
            first = len(self._pieces) == 1
        if first:
            self._tell(self._flush)

    def _flush(self) -> None:
        with self._lock:
            pieces, self._pieces = self._pieces, []
        if pieces:
            self._events.text(streamed("".join(pieces)))

    def _progress(self, text: str) -> None:
        self._tell(lambda: self._events.progress(text))

    def _count(self, session: ChatSession) -> None:
        used, size = session.context_used, session.context_size
        self._tell(lambda: self._events.context(used, size))

    def _tell(self, call: Callable[[], None]) -> None:
        self._post(call)

    # on the screen's thread

    def _is_open(self, title: str) -> None:
        if self.state == "opening":
            self.state = "ready"
        self._events.opened(title)

    def _ready(self, then: Callable[[], None]) -> None:
        self._flush()
        if self.state == "answering":
            self.state = "ready"
        then()

    def _is_closed(self, why: str) -> None:
        self._flush()
        self.state = "closed"
        self._events.closed(why)
