"""How the NPU warms up: a first-order model, invented for the simulator and labelled so in the docs."""

from __future__ import annotations

import math
import threading

__all__ = ["NpuTemperature"]

FULL_LOAD_RISE = 14_000.0
"""Milli-degrees above idle that a fully loaded NPU settles at."""

TIME_CONSTANT_S = 20.0


class NpuTemperature:
    def __init__(self, now_ns: int) -> None:
        self._lock = threading.Lock()
        self._at = now_ns
        self._rise = 0.0

    def rise(self, now_ns: int, load: float) -> float:
        """Milli-degrees above idle now, with ``load`` 0..1 since the last call."""
        with self._lock:
            step = 1.0 - math.exp(-max(0, now_ns - self._at) / 1e9 / TIME_CONSTANT_S)
            self._at = now_ns
            self._rise += (FULL_LOAD_RISE * load - self._rise) * step
            return self._rise
