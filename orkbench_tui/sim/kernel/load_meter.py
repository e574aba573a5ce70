"""Busy time of one core in one-second windows that follow each other, as the driver counts it."""

from __future__ import annotations

__all__ = ["WINDOW_NS", "LoadMeter"]

WINDOW_NS = 1_000_000_000


class LoadMeter:
    """Busy is from the commit of a chain to its completion; a stuck chain counts as busy."""

    def __init__(self, phase_ns: int) -> None:
        self._window_end = phase_ns
        self._busy_since: int | None = None
        self._busy = 0
        self._closed = 0
        self._job_since = 0
        self._late = 0
        self._late_closed = 0
        self.total_ns = 0

    def start(self, now: int) -> None:
        self._roll(now)
        if self._busy_since is None:
            self._busy_since = self._job_since = now

    def stop(self, now: int) -> None:
        self._roll(now)
        if self._busy_since is not None:
            self._credit(max(0, now - self._busy_since))
            self._late += max(0, now - self._job_since)
            self._busy_since = None

    def percent(self, now: int) -> int:
        """Load of the last closed window, 0 to 100."""
        self._roll(now)
        return min(100, self._closed * 100 // WINDOW_NS)

    def percent_as_before_0_9_7(self, now: int) -> int:
        """As old drivers count: a chain is credited whole to the window it ends in, and nothing is clamped."""
        self._roll(now)
        return self._late_closed * 100 // WINDOW_NS

    def _credit(self, ns: int) -> None:
        self._busy += ns
        self.total_ns += ns

    def _roll(self, now: int) -> None:
        if now < self._window_end:
            return
        if self._busy_since is not None:
            self._credit(max(0, self._window_end - self._busy_since))
        passed = (now - self._window_end) // WINDOW_NS
        self._closed, self._busy = self._busy, 0
        self._late_closed, self._late = (0 if passed else self._late), 0
        if passed:
            self._closed = WINDOW_NS if self._busy_since is not None else 0
            if self._busy_since is not None:
                self.total_ns += passed * WINDOW_NS
        self._window_end += (passed + 1) * WINDOW_NS
        if self._busy_since is not None:
            self._busy_since = self._window_end - WINDOW_NS
