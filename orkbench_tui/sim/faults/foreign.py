"""A program of somebody else on the NPU: how much it loads the cores and how many interrupts it raises."""

from __future__ import annotations

__all__ = ["FOREIGN_LOAD", "FOREIGN_PID", "STUCK_PID", "ForeignWork"]

FOREIGN_PID, STUCK_PID = 3120, 3121
FOREIGN_LOAD = 63
_INTERRUPTS_A_SECOND = 1500


class ForeignWork:
    def __init__(self) -> None:
        self._since: int | None = None
        self._counted = 0

    @property
    def running(self) -> bool:
        return self._since is not None

    def start(self, now_ns: int) -> None:
        if self._since is None:
            self._since = now_ns

    def stop(self, now_ns: int) -> None:
        self._counted = self.interrupts(now_ns)
        self._since = None

    def interrupts(self, now_ns: int) -> int:
        """Of each core, since boot."""
        if self._since is None:
            return self._counted
        return self._counted + (now_ns - self._since) * _INTERRUPTS_A_SECOND // 1_000_000_000
