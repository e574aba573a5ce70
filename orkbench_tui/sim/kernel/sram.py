"""The NPU's part of the system SRAM: a pool of 4 KiB chunks, and its debugfs node ``mm``."""

from __future__ import annotations

from orkbench_tui.driver.soc import RK3588
from orkbench_tui.driver.uapi import PAGE, page_up
from orkbench_tui.sim.kernel.kernel_log import INFO, WARN, KernelLog

__all__ = ["SRAM_START", "SramPool"]

SRAM_START = 0xFF001000
_CHUNKS_A_LINE = 32


class SramPool:
    """Methods expect the kernel's lock to be held. ``size`` 0 is a board whose NPU has no SRAM."""

    def __init__(self, log: KernelLog, size: int = RK3588.sram_bytes) -> None:
        self._log = log
        self._used = [False] * (size // PAGE)

    @property
    def total(self) -> int:
        return len(self._used) * PAGE

    @property
    def free(self) -> int:
        return self._used.count(False) * PAGE

    def allocate(self, size: int, requested: int) -> tuple[int, int]:
        """(first chunk, granted bytes) for a buffer of ``size`` bytes; (-1, 0) when DRAM must do.

        ``requested`` 0 asks for the whole buffer. The grant is contiguous or nothing.
        """
        wanted = min(size, page_up(requested) if requested else size, self.free)
        if wanted == 0:
            return -1, 0
        first = self._run(wanted // PAGE)
        if first < 0:
            self._log.device(WARN, f"mm allocate {wanted} failed, ret: -12, free size: {self.free}")
            return -1, 0
        self._mark(first, wanted, True)
        start = SRAM_START + first * PAGE
        self._log.device(INFO, f"allocate iova start: {start:#018x}, size: {wanted}")
        self._log.device(INFO, f"allocate size: {size} with cache size: {wanted}")
        return first, wanted

    def _run(self, count: int) -> int:
        """First of ``count`` free chunks in a row, or -1."""
        length = 0
        for at, used in enumerate(self._used):
            length = 0 if used else length + 1
            if length == count:
                return at - count + 1
        return -1

    def _mark(self, first: int, size: int, used: bool) -> None:
        for chunk in range(first, first + size // PAGE):
            self._used[chunk] = used

    def give_back(self, first: int, size: int) -> None:
        self._mark(first, size, False)

    def mm(self) -> bytes:
        """``/sys/kernel/debug/rknpu/mm``."""
        marks = "".join("*" if used else "." for used in self._used)
        lines = ['SRAM bitmap: "*" - used, "." - free (1bit = 4KB)']
        lines += [
            f"[{line:03}] [{marks[at : at + _CHUNKS_A_LINE]}]"
            for line, at in enumerate(range(0, len(marks), _CHUNKS_A_LINE))
        ]
        lines.append(f"SRAM total size: {self.total}, used: {self.total - self.free}, free: {self.free}")
        return ("\n".join(lines) + "\n").encode()
