"""Every sample of one other board, in order: for what must not leave one out, as a recording."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from orkbench_tui.ops.kernel_log.records import parse_kmsg
from orkbench_tui.ops.remote.fleet import Fleet, unreachable
from orkbench_tui.ops.remote.link import Condition, LinkState, pause_after
from orkbench_tui.ops.telemetry.sample import Sample
from orkbench_tui.settings import Settings

__all__ = ["RemoteStream"]

_WAITING = 3600


@dataclass(slots=True)
class _Waiting:
    """A sample nobody took yet; or, without one, the reason why none comes."""

    sample: Sample | None
    records: list[bytes]
    reason: str = ""


class RemoteStream:
    """Follows ``host`` from when it is entered until it is left. A link that ends is begun again.

    ``told`` hears one line when a board that was there does not answer, and one when it does again.
    """

    def __init__(
        self,
        host: str,
        settings: Settings,
        interval_s: float,
        told: Callable[[str], object],
        *,
        pause: Callable[[int], float] = pause_after,
    ) -> None:
        """
        Raises:
            UsageError: ``host`` is none.
        """
        self._host, self._told = host, told
        self._news = threading.Condition()
        self._waiting: deque[_Waiting] = deque()
        self._log = _NewRecords()
        self._reached = self._gone = False
        self._fleet = Fleet([host], settings, interval_s, pause=pause, heard=self._heard)

    def __enter__(self) -> RemoteStream:
        self._fleet.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._fleet.close()

    def _heard(self, state: LinkState) -> None:
        if state.condition is Condition.LIVE and state.sample is not None:
            records = self._log.of(state.sample.identity.boot_id, state.records)
            item = _Waiting(state.sample, records)
        elif state.condition is Condition.UNREACHABLE:
            item = _Waiting(None, [], state.reason)
        else:
            return
        with self._news:
            self._waiting.append(item)
            if len(self._waiting) > _WAITING:
                # Whoever reads has stopped for an hour or so: what the log said must not be lost with the sample.
                oldest = self._waiting.popleft()
                self._waiting[0].records[:0] = oldest.records
            self._news.notify_all()

    def next(self) -> tuple[Sample, list[bytes]]:
        """The next sample, with the records of its kernel log that were new in it; waits for it.

        Raises:
            UnreachableError: the board has never answered.
        """
        while True:
            with self._news:
                self._news.wait_for(lambda: bool(self._waiting))
                item = self._waiting.popleft()
            if item.sample is not None:
                if self._gone:
                    self._told(f"{self._host} answers again")
                self._reached, self._gone = True, False
                return item.sample, item.records
            if not self._reached:
                raise unreachable(self._host, item.reason)
            if not self._gone:
                self._told(f"{self._host} does not answer: {item.reason}; it is tried until it does")
            self._gone = True


class _NewRecords:
    """A link that is begun again sends the whole log again; this leaves out what was there before."""

    def __init__(self) -> None:
        self._boot_id, self._last = "", -1

    def of(self, boot_id: str, records: tuple[bytes, ...]) -> list[bytes]:
        if boot_id != self._boot_id:
            self._boot_id, self._last = boot_id, -1
        fresh = []
        for blob in records:
            numbers = [record.sequence for record in parse_kmsg([blob]) if record.sequence is not None]
            if not numbers or max(numbers) > self._last:
                fresh.append(blob)
            self._last = max([self._last, *numbers])
        return fresh
