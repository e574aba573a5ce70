"""Buffer objects: one memory, or two when the CPU side is cached.

A non-cacheable object is one memory that both sides see. A cacheable one has a CPU side, which
clients map, and a device side, which the chip reads and writes; only a sync moves bytes between
them. So a forgotten sync shows as stale data, as it does on a board.
"""

from __future__ import annotations

import mmap
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from orkbench_tui.driver.uapi import MemFlag, SyncFlag
from orkbench_tui.sim.chip.address_space import Bytes, Segment
from orkbench_tui.sim.chip.first_output import CleanMarks

if TYPE_CHECKING:
    from orkbench_tui.sim.kernel.dma_heap import DmaBuf

__all__ = ["GemObject", "create_memory"]


@dataclass(eq=False, slots=True)
class GemObject:
    """``fd`` is a memfd holding the CPU side; ``references`` counts handles and running jobs.

    ``domain`` is where the kernel believes the mapping to be, ``mapped`` where it is. An import's memory
    belongs to its dma-buf ``source``, which is None for native buffers. ``sram`` is (chunk, bytes).
    """

    size: int
    flags: MemFlag
    domain: int
    obj_addr: int
    fake_offset: int
    dma_addr: int
    fd: int
    cpu: Bytes
    device: Bytes
    mapped: int = 0
    source: DmaBuf | None = None
    sram: tuple[int, int] = (-1, 0)
    references: int = 0
    syncs: int = field(default=0)
    marks: CleanMarks | None = None

    def __post_init__(self) -> None:
        if self.cacheable:
            self.marks = CleanMarks(self.size)

    @property
    def cacheable(self) -> bool:
        return bool(self.flags & MemFlag.CACHEABLE)

    def segment(self) -> Segment:
        return Segment(self.dma_addr, self.device, self.marks)

    def sync(self, offset: int, size: int, direction: SyncFlag) -> None:
        """Clean, then invalidate, exactly the given bytes."""
        self.syncs += 1
        if self.marks is None:
            return
        if direction & SyncFlag.TO_DEVICE:
            self.marks.clean(offset, size)
            self.device[offset : offset + size] = self.cpu[offset : offset + size]
        if direction & SyncFlag.FROM_DEVICE:
            self.cpu[offset : offset + size] = self.device[offset : offset + size]

    def release(self) -> None:
        """Give the memory back; mappings that clients still hold stay valid."""
        if self.source is None:
            os.close(self.fd)
        self.cpu = self.device = np.zeros(0, np.uint8)


def create_memory(size: int, cacheable: bool) -> tuple[int, Bytes, Bytes]:
    """(memfd, CPU side, device side) of zeros; the sides are the same memory unless cacheable.

    Raises:
        OSError: the host has no memory or file descriptor left.
    """
    fd = os.memfd_create("ork-sim-gem", os.MFD_CLOEXEC)
    try:
        os.ftruncate(fd, size)
        cpu = np.frombuffer(mmap.mmap(fd, size), np.uint8)
        device = np.frombuffer(mmap.mmap(-1, size), np.uint8) if cacheable else cpu
    except OSError:
        os.close(fd)
        raise
    return fd, cpu, device
