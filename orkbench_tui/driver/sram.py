"""On-chip SRAM for buffers that the NPU itself reads or writes.

Asking is a request: the kernel grants what is free and puts the rest into DRAM without a word, so what
was granted is part of the answer. Memory the kernel reads has no use here: a task array in SRAM wedges the
board until its power is cut, and there is no name for one in this module.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from orkbench_tui.driver import uapi
from orkbench_tui.driver.memory import Buffer, Memory

__all__ = ["NpuUse", "SramBuffer", "allocate_near"]


class NpuUse(StrEnum):
    """What the NPU does with a buffer. Only the first is known to be safe and without effect so far;
    the others are permitted and were never probed."""

    REGISTER_PROGRAMS = "register programs"
    ACTIVATIONS = "activations"
    OUTPUTS = "outputs"


@dataclass(frozen=True, slots=True)
class SramBuffer:
    """``granted`` of ``requested`` bytes lie on the chip; a grant of 0 is an ordinary buffer."""

    buffer: Buffer
    use: NpuUse
    requested: int
    granted: int

    def describe(self) -> str:
        return f"{self.use}: {self.granted} of {self.requested} bytes in SRAM"


def allocate_near(
    memory: Memory, use: NpuUse, size: int, *, domain: int = 0, sram_bytes: int | None = None
) -> SramBuffer:
    """A buffer of ``size`` bytes, of which up to ``sram_bytes`` (default all) may lie on the chip.

    Raises:
        ValueError: no such use, or ``sram_bytes`` is not between 1 and ``size``.
        NoMemoryError, RefusedError: see ``Memory.allocate``.
    """
    use = NpuUse(use)
    wanted = size if sram_bytes is None else sram_bytes
    if not 1 <= wanted <= size:
        raise ValueError(f"{wanted} bytes of SRAM for a buffer of {size}")
    flags = uapi.DATA_FLAGS | uapi.MemFlag.TRY_ALLOC_SRAM
    buffer = memory.allocate(size, flags, domain, sram_request=wanted)
    return SramBuffer(buffer, use, uapi.page_up(wanted), buffer.sram_bytes)
