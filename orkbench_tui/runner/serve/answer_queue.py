"""Requests in a line for the one NPU: a bounded queue and the thread that answers them one after the other."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from orkbench_tui.errors import NoDeviceError
from orkbench_tui.runner.chat import Answer, GenerationLimits
from orkbench_tui.runner.sampler import Sampler
from orkbench_tui.runner.serve.slots import Slots
from orkbench_tui.runner.tokenizer import Tokenizer

__all__ = ["AnswerQueue", "Job", "QueueClosedError", "QueueFullError", "Queueing"]


class QueueFullError(Exception):
    """As many requests wait as may."""


class QueueClosedError(Exception):
    """The server is ending, or its NPU is gone."""


@dataclass(slots=True, eq=False)
class Job:
    """One prompt to answer. The three listeners are called in the queue's thread, ``on_text`` with pieces of
    text, then exactly one of ``on_done`` and ``on_failed``; none of them for a job cancelled while it waited.

    Times are of ``time.monotonic``, in seconds.
    """

    ids: list[int]
    sampler: Sampler
    limits: GenerationLimits
    on_text: Callable[[str], None]
    on_done: Callable[[Answer], None]
    on_failed: Callable[[BaseException], None]
    queued_at: float = field(default_factory=time.monotonic)
    started_at: float | None = None
    first_text_at: float | None = None
    _cancelled: threading.Event = field(default_factory=threading.Event)

    @property
    def cancelled(self) -> bool:
        return self._cancelled.is_set()

    @property
    def waited_s(self) -> float | None:
        """Seconds in the queue; None while it waits."""
        return None if self.started_at is None else self.started_at - self.queued_at

    def _say(self, text: str) -> None:
        if self.first_text_at is None:
            self.first_text_at = time.monotonic()
        self.on_text(text)


@dataclass(frozen=True, slots=True)
class Queueing:
    """How many requests wait and are answered now, and how many may wait."""

    waiting: int
    running: int
    capacity: int


class AnswerQueue:
    """Made with ``start``, ended with ``close``; other methods may be called from any thread.

    ``on_lost`` is called once, in the queue's thread, when the NPU is gone: nothing is answered afterwards.
    """

    def __init__(
        self,
        slots: Slots,
        tokenizer: Tokenizer,
        capacity: int,
        on_lost: Callable[[NoDeviceError], None] = lambda error: None,
    ) -> None:
        self._slots = slots
        self._tokenizer = tokenizer
        self._capacity = capacity
        self._on_lost = on_lost
        self._waiting: deque[Job] = deque()
        self._running: Job | None = None
        self._closed = False
        self._change = threading.Condition()
        self._thread = threading.Thread(target=self._work, name="answers", daemon=True)

    def start(self) -> None:
        self._thread.start()

    @property
    def queueing(self) -> Queueing:
        with self._change:
            return Queueing(len(self._waiting), int(self._running is not None), self._capacity)

    def submit(self, job: Job) -> int:
        """Put ``job`` in the line; how many are before it, the one being answered included.

        Raises:
            QueueFullError: ``capacity`` jobs wait.
            QueueClosedError: after ``close``.
        """
        with self._change:
            if self._closed:
                raise QueueClosedError
            if len(self._waiting) >= self._capacity:
                raise QueueFullError
            before = len(self._waiting) + (self._running is not None)
            self._waiting.append(job)
            self._change.notify_all()
            return before

    def before(self, job: Job) -> int | None:
        """How many are answered before ``job``; None when it waits no longer."""
        with self._change:
            if job not in self._waiting:
                return None
            return self._waiting.index(job) + (self._running is not None)

    def cancel(self, job: Job) -> None:
        """Nobody wants the answer any more: a waiting job leaves the line, a running one stops between two steps."""
        with self._change:
            job._cancelled.set()
            if job in self._waiting:
                self._waiting.remove(job)

    def close(self, *, drop: bool = False) -> None:
        """Take no more jobs and wait until all in the line are answered, or with ``drop`` have failed."""
        if drop:
            self.drop()
        with self._change:
            self._closed = True
            self._change.notify_all()
        if self._thread.ident is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def drop(self) -> None:
        """Take no more jobs; those that wait fail, and the running one stops between two steps."""
        with self._change:
            self._closed = True
            dropped = list(self._waiting)
            self._waiting.clear()
            if self._running is not None:
                self._running._cancelled.set()
            self._change.notify_all()
        for job in dropped:
            job.on_failed(QueueClosedError())

    def _next(self) -> Job | None:
        with self._change:
            self._running = None
            while not self._waiting:
                if self._closed:
                    return None
                self._change.wait()
            self._running = self._waiting.popleft()
            self._running.started_at = time.monotonic()
            return self._running

    def _work(self) -> None:
        while (job := self._next()) is not None:
            try:
                answer = self._slots.answer(
                    job.ids,
                    self._tokenizer,
                    job.sampler,
                    job.limits,
                    job._say,
                    lambda job=job: job.cancelled,  # type: ignore[misc]
                )
            except NoDeviceError as error:
                job.on_failed(error)
                self._lose(error)
                return
            except Exception as error:  # noqa: BLE001 - one failed answer must not end the thread
                job.on_failed(error)
            else:
                job.on_done(answer)

    def _lose(self, error: NoDeviceError) -> None:
        with self._change:
            self._closed = True
            self._running = None
            lost = list(self._waiting)
            self._waiting.clear()
        for job in lost:
            job.on_failed(error)
        self._on_lost(error)
