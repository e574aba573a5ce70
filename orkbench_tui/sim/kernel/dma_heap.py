"""The system dma-heap: buffers that belong to no device until one maps them.

A buffer is cached memory of the CPU. The device sees it from the moment it is attached; DMA_BUF_IOCTL_SYNC
then moves bytes: START with READ brings the device's bytes to the CPU, END with WRITE the CPU's to the
device. Without an attachment a sync has nobody to sync with and does nothing.
"""

from __future__ import annotations

import errno
import os
import threading
from dataclasses import dataclass, field

from orkbench_tui.driver.uapi import DmaBufSyncFlag, page_up
from orkbench_tui.sim.chip.address_space import Bytes
from orkbench_tui.sim.kernel.gem import create_memory

__all__ = ["DmaBuf", "DmaHeap", "HeapFile", "file_identity"]

_SYNC_FLAGS = int(DmaBufSyncFlag.READ | DmaBufSyncFlag.WRITE | DmaBufSyncFlag.END)
_DIRECTIONS = DmaBufSyncFlag.READ | DmaBufSyncFlag.WRITE


def file_identity(fd: int) -> int:
    """What is the same for every descriptor of one buffer, in every process.

    Raises:
        OSError: EBADF.
    """
    return os.fstat(fd).st_ino


@dataclass(eq=False, slots=True)
class DmaBuf:
    """``shown`` is how many leading bytes the device sees as they are: past it, it reads another page."""

    identity: int
    size: int
    fd: int
    cpu: Bytes
    device: Bytes
    attachments: int = 0
    shown: int = 0

    def attach(self, shown: int) -> None:
        """Map for the device. Mapping cleans the CPU's caches, so what was written before is seen."""
        self.attachments += 1
        self.shown = shown
        self._clean()

    def _clean(self) -> None:
        self.device[: self.shown] = self.cpu[: self.shown]

    def sync(self, flags: DmaBufSyncFlag) -> None:
        if not self.attachments:
            return
        if flags & DmaBufSyncFlag.END:
            if flags & DmaBufSyncFlag.WRITE:
                self._clean()
        elif flags & DmaBufSyncFlag.READ:
            self.cpu[: self.shown] = self.device[: self.shown]


@dataclass(eq=False, slots=True)
class HeapFile:
    """An open file of the heap's node, and the buffers whose descriptors its process still has."""

    pid: int
    buffers: dict[int, DmaBuf] = field(default_factory=dict)


class DmaHeap:
    """Every live buffer, by identity. Methods take the kernel's lock themselves."""

    def __init__(self, condition: threading.Condition, limit_bytes: int) -> None:
        self._condition = condition
        self._limit = limit_bytes
        self._buffers: dict[int, DmaBuf] = {}
        self._held: dict[int, int] = {}
        self.allocated = 0

    def open(self, pid: int) -> HeapFile:
        return HeapFile(pid)

    def allocate(self, file: HeapFile, size: int) -> DmaBuf:
        """DMA_HEAP_IOCTL_ALLOC.

        Raises:
            OSError: EINVAL for no bytes, ENOMEM.
        """
        if size <= 0:
            raise OSError(errno.EINVAL, "dma-heap length")
        size = page_up(size)
        with self._condition:
            if self.allocated + size > self._limit:
                raise OSError(errno.ENOMEM, "dma-heap")
            try:
                fd, cpu, device = create_memory(size, cacheable=True)
            except (OSError, MemoryError):
                raise OSError(errno.ENOMEM, "dma-heap") from None
            buffer = DmaBuf(file_identity(fd), size, fd, cpu, device)
            self.allocated += size
            self._buffers[buffer.identity] = file.buffers[buffer.identity] = buffer
            self.hold(buffer)
            return buffer

    def find(self, identity: int) -> DmaBuf:
        """Raises OSError(EINVAL) for a descriptor that is no dma-buf."""
        found = self._buffers.get(identity)
        if found is None:
            raise OSError(errno.EINVAL, "not a dma-buf")
        return found

    def sync(self, identity: int, flags: int) -> None:
        """DMA_BUF_IOCTL_SYNC. Raises OSError(EINVAL): unknown buffer, unknown flags or no direction."""
        with self._condition:
            buffer = self.find(identity)
            if flags & ~_SYNC_FLAGS or not flags & _DIRECTIONS:
                raise OSError(errno.EINVAL, "dma-buf sync")
            buffer.sync(DmaBufSyncFlag(flags))

    def hold(self, buffer: DmaBuf) -> None:
        """One more reference: a descriptor or a GEM handle."""
        self._held[buffer.identity] = self._held.get(buffer.identity, 0) + 1

    def drop(self, buffer: DmaBuf) -> None:
        """One reference less; the memory goes with the last one."""
        if buffer.identity not in self._held:
            return
        self._held[buffer.identity] -= 1
        if self._held[buffer.identity] == 0:
            del self._held[buffer.identity], self._buffers[buffer.identity]
            self.allocated -= buffer.size
            os.close(buffer.fd)

    def release(self, file: HeapFile, identity: int) -> None:
        """The process has closed its descriptor."""
        with self._condition:
            buffer = file.buffers.pop(identity, None)
            if buffer is not None:
                self.drop(buffer)

    def power_down(self) -> None:
        """The board goes down: every buffer is gone, and no new one comes."""
        with self._condition:
            for buffer in self._buffers.values():
                os.close(buffer.fd)
            self._buffers.clear()
            self._held.clear()
            self.allocated = self._limit = 0

    def close(self, file: HeapFile) -> None:
        """The process has gone, and its descriptors with it."""
        for identity in list(file.buffers):
            self.release(file, identity)
