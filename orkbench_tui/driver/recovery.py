"""When a result that does not come counts as lost."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

__all__ = ["BACKOFF_S", "MAX_ATTEMPTS", "SPIN_S", "MissWindow", "MissWindows", "Pacer"]

MAX_ATTEMPTS = 6
"""Resets with a resubmit before a job is given up."""

FIRST_WINDOW_S = 2.0
LAST_WINDOW_S = 3.0
FLOOR_S = 0.05
FACTOR = 6.0
_WEIGHT = 0.25

SPIN_S = 0.001
BACKOFF_S = 50e-6


@dataclass(slots=True)
class MissWindow:
    """How long to wait for a job: six times what such jobs took, moving average, once one has been seen."""

    estimate_s: float | None = None

    def learn(self, seconds: float) -> None:
        if self.estimate_s is None:
            self.estimate_s = seconds
        else:
            self.estimate_s += _WEIGHT * (seconds - self.estimate_s)

    def seconds(self, attempt: int = 0) -> float:
        """The wait of an attempt (0 is the first submit, ``MAX_ATTEMPTS`` the last)."""
        if attempt >= MAX_ATTEMPTS:
            return LAST_WINDOW_S
        if self.estimate_s is None:
            return FIRST_WINDOW_S
        return max(FLOOR_S, FACTOR * self.estimate_s)


@dataclass(slots=True)
class MissWindows:
    """One window per cost of job: a short job says nothing about how long a long one takes."""

    _by_cost: dict[int, MissWindow] = field(default_factory=dict)

    def of(self, cost: int) -> MissWindow:
        """The window of jobs of this cost, to a power of two."""
        return self._by_cost.setdefault(cost.bit_length(), MissWindow())


class Pacer:
    """Spins for a millisecond, then sleeps between looks."""

    def __init__(self) -> None:
        self._began = time.monotonic()

    def wait(self) -> None:
        if time.monotonic() - self._began > SPIN_S:
            time.sleep(BACKOFF_S)
