"""Cores that read busy and complete nothing: how long that has been seen."""

from __future__ import annotations

__all__ = ["STUCK_S", "Stillness"]

STUCK_S = 2.0
"""Load is that of the last closed second, so for two seconds both readings speak of the same time. No job
of a program that works takes this long.
"""


class Stillness:
    """Remembers, for each core, since when it has read 100 % while its interrupt count stood still."""

    def __init__(self) -> None:
        self._since: dict[int, tuple[int, float]] = {}

    def seconds(self, core: int, load_pct: int | None, count: int | None, now_s: float) -> float:
        """How long so far; 0 when the core completes, is not fully busy, or was never seen before."""
        if load_pct is None or load_pct < 100 or count is None:
            self._since.pop(core, None)
            return 0.0
        known = self._since.get(core)
        if known is None or known[0] != count:
            self._since[core] = (count, now_s)
            return 0.0
        return now_s - known[1]
