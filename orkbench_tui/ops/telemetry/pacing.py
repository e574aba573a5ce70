"""When the next sample is due."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

__all__ = ["RATE_PAUSE_S", "ticks"]

RATE_PAUSE_S = 0.2
"""Between a first sample, which has no rates, and the second."""


def ticks(
    interval_s: float,
    count: int = 0,
    *,
    steady: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[int]:
    """0, 1, 2, … every ``interval_s``; ``count`` of them, 0 for no end. A tick that came late is not made up for."""
    taken, due_s = 0, steady()
    while True:
        yield taken
        taken += 1
        if count and taken >= count:
            return
        due_s = max(due_s + interval_s, steady())
        sleep(max(0.0, due_s - steady()))
