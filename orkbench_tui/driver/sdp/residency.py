"""Which function table each core holds, and loading one when it holds another.

A table survives programs and submits and is cleared by a reset, also by the one the kernel does after a
job it gave up.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from orkbench_tui.driver.memory import Memory
from orkbench_tui.driver.modes import ModeState
from orkbench_tui.driver.sdp.assembly import Assembly, RunProgram, Runs
from orkbench_tui.driver.sdp.lut import Lut
from orkbench_tui.driver.sdp.lut_programs import LOAD_WORDS, lut_load_body
from orkbench_tui.driver.submit import Submitter

__all__ = ["LutResidency"]

_SCRATCH_BYTES = 64
_KEPT_LOADERS = 64
"""Load programs kept for tables that may come back, the oldest dropped first; 9 KB each."""


class LutResidency:
    """The tables of one device's cores. ``loads`` counts load programs run."""

    def __init__(self, memory: Memory, submitter: Submitter, runs: Runs, modes: ModeState) -> None:
        self._memory = memory
        self._submitter = submitter
        self._runs = runs
        # Who resets the device clears the loaded flags there.
        self._modes = modes
        self._held: list[tuple[object, ...] | None] = [None] * modes.cores
        self._loaders: dict[tuple[object, ...], Assembly] = {}
        self._lock = threading.RLock()
        self._scratch = 0
        self.loads = 0

    def holds(self, core: int, lut: Lut) -> bool:
        """Whether the core answers with this table."""
        return self._modes.lut_loaded[core] and self._held[core] == lut.key

    @contextmanager
    def ready(self, core: int, lut: Lut) -> Iterator[None]:
        """Keep a table on a core for the programs run inside; loads it when another is there.

        Raises:
            UnhealthyError, NoDeviceError: the load failed.
        """
        with self._lock:
            if not self.holds(core, lut):
                self._load(core, lut)
            yield

    def _load(self, core: int, lut: Lut) -> None:
        self._modes.lut_loaded[core] = False
        self._submitter.run_on(core, self._loader(lut).jobs[0])
        self._held[core] = lut.key
        self._modes.lut_loaded[core] = True
        self.loads += 1

    def _loader(self, lut: Lut) -> Assembly:
        if lut.key not in self._loaders:
            if not self._scratch:
                self._scratch = self._memory.allocate(_SCRATCH_BYTES).iova
            if len(self._loaders) == _KEPT_LOADERS:
                self._runs.release(self._loaders.pop(next(iter(self._loaders))))
            program = RunProgram(lut_load_body(lut, self._scratch), LOAD_WORDS)
            self._loaders[lut.key] = self._runs.assemble([[program]], pingpong=False)
        return self._loaders[lut.key]
