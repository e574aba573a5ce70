"""The cores as threads: each runs the chains it is given and reports back.

A core's thread is the hardware; it holds no kernel lock while a chain executes.
"""

from __future__ import annotations

import queue
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from orkbench_tui.driver.soc import RK3588
from orkbench_tui.sim.chip.address_space import AddressSpace
from orkbench_tui.sim.chip.conv_native import execute_native
from orkbench_tui.sim.chip.core import Core, Executor, Run
from orkbench_tui.sim.chip.faults import ChipFault
from orkbench_tui.sim.clock import BoardClock
from orkbench_tui.sim.kernel.jobs import Job, Work
from orkbench_tui.sim.kernel.load_meter import LoadMeter

__all__ = ["Chain", "CoreThread"]


@dataclass(frozen=True, slots=True)
class Chain:
    """A commit: what the kernel writes into the program controller."""

    job: Job
    work: Work
    space: AddressSpace
    address: int
    amount: int
    count: int
    earliest_ns: int


@dataclass(eq=False)
class CoreThread:
    """One core: its queue of jobs, the job that owns it, its load and its interrupt count.

    ``jobs_done`` and ``hw_ns`` sum up what it finished since boot, by the time the chip is predicted to take.

    ``slowdown`` is how much longer than at the full clock a program takes.
    """

    index: int
    clock: BoardClock
    load: LoadMeter
    finished: Callable[[CoreThread, Chain, Run], None]
    execute: Executor = execute_native
    todo: deque[Job] = field(default_factory=deque)
    owner: Job | None = None
    interrupts: int = 0
    jobs_done: int = 0
    hw_ns: int = 0
    slowdown: float = 1.0
    amount_scale: int = RK3588.amount_scale
    chip: Core = field(init=False)

    def __post_init__(self) -> None:
        self._inbox: queue.SimpleQueue[Chain | None] = queue.SimpleQueue()
        self.reset()
        self._thread = threading.Thread(target=self._run, name=f"npu-core{self.index}", daemon=True)
        self._thread.start()

    def reset(self) -> None:
        """Registers back to zero. A chain that still executes goes on with the old ones, unheard."""
        self.chip = Core(self.index, self.execute, self.amount_scale)

    def commit(self, chain: Chain) -> None:
        self._inbox.put(chain)

    def stop(self) -> None:
        self._inbox.put(None)

    def _run(self) -> None:
        while (chain := self._inbox.get()) is not None:
            self._execute(chain)
            # While the core waits, a chain kept here would keep the memory of its whole address space.
            del chain

    def _execute(self, chain: Chain) -> None:
        try:
            run = self.chip.run(chain.space, chain.address, chain.amount, chain.count)
        except Exception as error:  # noqa: BLE001 - a core that dies would hang every later client
            run = Run(0, 0, 0, ChipFault(f"defect of the simulator: {error!r}"), chain.address)
        if self.slowdown != 1.0:
            run = replace(run, predicted_ns=int(run.predicted_ns * self.slowdown))
        if self.clock.pace == "real":
            left = chain.earliest_ns + run.predicted_ns - self.clock.now_ns()
            if left > 0:
                time.sleep(left / 1e9)
        self.finished(self, chain, run)
