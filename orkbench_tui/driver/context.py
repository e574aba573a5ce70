"""What every run path of one open NPU works with."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from orkbench_tui.driver import uapi
from orkbench_tui.driver.dma_memory import DmaMemory
from orkbench_tui.driver.domains import Domains
from orkbench_tui.driver.failure_recorder import FailureRecorder
from orkbench_tui.driver.failures import LifetimeError
from orkbench_tui.driver.memory import Buffer, Memory
from orkbench_tui.driver.mode_gate import ModeGate
from orkbench_tui.driver.recovery import MissWindows
from orkbench_tui.driver.soc import Soc
from orkbench_tui.driver.submit import Submitter
from orkbench_tui.errors import NoDeviceError

if TYPE_CHECKING:
    from orkbench_tui.driver.drain import Drain
    from orkbench_tui.driver.matmul.assembly import ProgramStore

__all__ = ["Context", "Unattended"]


class Unattended(Protocol):
    """A job that was submitted without waiting."""

    def end(self) -> int:
        """Wait for it; see ``Doorbell.end``."""
        ...


@dataclass(slots=True, eq=False)
class Context:
    """``after_run`` is called after every run, ``reset`` resets the device.

    ``unattended`` are jobs nobody waits for yet, by core; ``drains`` the marker jobs by format name and
    domain.
    """

    soc: Soc
    memory: Memory
    dma: DmaMemory
    submitter: Submitter
    gate: ModeGate
    domains: Domains
    programs: ProgramStore
    failures: FailureRecorder
    after_run: Callable[[], None]
    reset: Callable[[], None]
    open: bool = True
    notices: list[str] = field(default_factory=list)
    windows: MissWindows = field(default_factory=MissWindows)
    unattended: dict[int, Unattended] = field(default_factory=dict)
    drains: dict[tuple[str, int], Drain] = field(default_factory=dict)
    pid: int = field(default_factory=os.getpid)
    _scratch: dict[tuple[str, int, int], Buffer] = field(default_factory=dict)

    def require_ready(self, what: str, buffers: Iterable[Buffer] = ()) -> None:
        """Call before anything is submitted.

        Raises:
            NoDeviceError: the NPU was closed, or belongs to the parent process.
            LifetimeError: one of the buffers was freed.
        """
        if not self.open:
            raise NoDeviceError(f"{what}: this NPU was closed", do="open it again")
        if self.pid != os.getpid():
            raise NoDeviceError(
                f"{what}: this NPU belongs to process {self.pid}",
                why=f"process {os.getpid()} was forked from it",
                do="open the NPU in the process that uses it",
            )
        for buffer in buffers:
            if not buffer.live:
                raise LifetimeError(
                    what,
                    why=f"NPU memory at {buffer.iova:#x} that it uses ({buffer.size} bytes) was freed",
                    do="load and compile it again",
                )

    def say_once(self, line: str) -> None:
        """Note something the user should know; the same line is kept once."""
        if line not in self.notices:
            self.notices.append(line)

    def scratch(self, use: str, size: int, domain: int = 0) -> Buffer:
        """The shared buffer of a use in a domain, at least ``size`` bytes.

        Addresses are compiled into programs, so a buffer is never moved: a larger need gets a larger
        buffer beside it, and sizes grow by powers of two to keep their number small.
        """
        rounded = max(uapi.PAGE, 1 << (size - 1).bit_length())
        key = use, rounded, domain
        if key not in self._scratch:
            self._scratch[key] = self.memory.allocate(rounded, domain=domain)
        return self._scratch[key]
