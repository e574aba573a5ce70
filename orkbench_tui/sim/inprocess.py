"""The simulated board inside this process: the same kernel and files, no socket."""

from __future__ import annotations

import mmap
import os

from orkbench_tui.driver import uapi
from orkbench_tui.sim.board_files.client_time import ClientProcesses
from orkbench_tui.sim.board_files.tree import BoardTree
from orkbench_tui.sim.board_variant import STOCK, BoardVariant
from orkbench_tui.sim.chip.conv_native import execute_native
from orkbench_tui.sim.chip.core import Executor
from orkbench_tui.sim.clock import BoardClock
from orkbench_tui.sim.drm_version import fill_version_strings
from orkbench_tui.sim.kernel.dma_heap import DmaHeap, HeapFile
from orkbench_tui.sim.kernel.rknpu import RknpuKernel
from orkbench_tui.sim.machine import Machine

__all__ = ["InProcessBoard", "InProcessDevice", "InProcessDmaHeap"]


class InProcessDevice:
    """An open file of the simulated node; implements ``driver.device.Device``."""

    name = "sim (in this process)"

    def __init__(self, kernel: RknpuKernel) -> None:
        self._kernel = kernel
        self._file = kernel.open(os.getpid())
        self._open = True

    def ioctl(self, request: int, argument: bytearray) -> int:
        if request == uapi.DRM_IOCTL_VERSION:
            return fill_version_strings(argument, lambda a: self._kernel.ioctl(self._file, request, a))
        return self._kernel.ioctl(self._file, request, argument)

    def mmap(self, offset: int, length: int) -> mmap.mmap:
        fd = self._kernel.map_fd(self._file, offset, length)
        try:
            return mmap.mmap(fd, length)
        finally:
            os.close(fd)

    def close(self) -> None:
        if self._open:
            self._open = False
            self._kernel.close(self._file)


class _HeapBuffer:
    """A buffer of the simulated heap; implements ``driver.dma_heap.DmaBuffer``."""

    def __init__(self, heap: DmaHeap, file: HeapFile, size: int) -> None:
        self._heap = heap
        self._file = file
        buffer = heap.allocate(file, size)
        self._identity = buffer.identity
        self.size = buffer.size
        self.fd = os.dup(buffer.fd)
        self.mapping = mmap.mmap(self.fd, self.size)

    def sync(self, flags: uapi.DmaBufSyncFlag) -> None:
        self._heap.sync(self._identity, int(flags))

    def close(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1
            self._heap.release(self._file, self._identity)


class InProcessDmaHeap:
    """An open file of the simulated dma-heap; implements ``driver.dma_heap.DmaHeap``."""

    name = "sim dma-heap (in this process)"

    def __init__(self, kernel: RknpuKernel) -> None:
        kernel.check_permission()
        self._heap = kernel.memory.heap
        self._file = self._heap.open(os.getpid())

    def allocate(self, size: int) -> _HeapBuffer:
        return _HeapBuffer(self._heap, self._file, size)

    def close(self) -> None:
        self._heap.close(self._file)


class InProcessBoard:
    """One simulated board. ``execute`` replaces the fast executor, for tests."""

    def __init__(
        self, pace: str = "fast", execute: Executor = execute_native, variant: BoardVariant = STOCK
    ) -> None:
        self._clients = ClientProcesses()
        self._clients.attach(os.getpid())
        self.machine = Machine(pace, variant, self._clients, execute)

    @property
    def kernel(self) -> RknpuKernel:
        return self.machine.kernel

    @property
    def clock(self) -> BoardClock:
        return self.machine.clock

    def device(self) -> InProcessDevice:
        return InProcessDevice(self.kernel)

    def heap(self) -> InProcessDmaHeap:
        return InProcessDmaHeap(self.kernel)

    def files(self) -> BoardTree:
        """The board's files. Processor time shown is this whole process, the simulated chip included."""
        return self.machine.tree

    def close(self) -> None:
        self.kernel.shut_down()
