"""Programs of somebody else on the simulated board: who they are, what ends them, how they load the NPU."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = [
    "FOREIGN_LOAD",
    "FOREIGN_PID",
    "PROGRAMS",
    "STORM_PID",
    "STUCK_PID",
    "ForeignProgram",
    "ForeignWork",
]

FOREIGN_PID, STUCK_PID, STORM_PID = 3120, 3121, 3122
FOREIGN_LOAD = 63
_INTERRUPTS_A_SECOND = 1500


@dataclass(frozen=True, slots=True)
class ForeignProgram:
    """A process that is there while ``fault`` is set. In ``state`` D no signal reaches it."""

    pid: int
    fault: str
    name: str
    state: str
    waits_in: str

    @property
    def takes_signals(self) -> bool:
        return self.state != "D"


PROGRAMS = (
    ForeignProgram(FOREIGN_PID, "busy-other-process", "rknn_server", "S", "do_sys_poll"),
    ForeignProgram(STUCK_PID, "process-stuck-D", "ork-run", "D", "__mutex_lock.constprop.0"),
    ForeignProgram(STORM_PID, "reset-storm", "npu-watchdog", "S", "hrtimer_nanosleep"),
)


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
