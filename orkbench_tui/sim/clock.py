"""The board's clock: nanoseconds since the simulated boot.

It follows the host's monotonic clock. Where the board would only sit and wait (a time-out, a reset),
pace ``fast`` moves the clock ahead instead of sleeping, so kernel-log times stay those of a board.
"""

from __future__ import annotations

import threading
import time

__all__ = ["PACES", "BoardClock"]

PACES = ("fast", "real")

UPTIME_AT_START_NS = 12_000_000_000
"""Of a board about which nothing else is known: it has just booted."""


class BoardClock:
    """``uptime_ns`` is what has passed since the boot; ``boot_wall_s`` when that was, now less the uptime if None."""

    def __init__(
        self, pace: str = "fast", uptime_ns: int = UPTIME_AT_START_NS, boot_wall_s: float | None = None
    ) -> None:
        self.pace = pace
        self._start = time.monotonic_ns() - uptime_ns
        self._skipped = 0
        self._lock = threading.Lock()
        self.boot_wall_s = time.time() - uptime_ns / 1e9 if boot_wall_s is None else boot_wall_s

    def wall_s(self) -> float:
        """The board's own time of day."""
        return self.boot_wall_s + self.now_ns() / 1e9

    def now_ns(self) -> int:
        return time.monotonic_ns() - self._start + self._skipped

    def sit_out(self, ns: int) -> None:
        """Let time pass in which nothing happens; call without holding a lock others need."""
        if ns <= 0:
            return
        if self.pace == "real":
            time.sleep(ns / 1e9)
            return
        with self._lock:
            self._skipped += ns
