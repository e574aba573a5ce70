"""The seam for memory that exists before a device maps it: the kernel's dma-heap.

Beside ``Device`` there is this second, smaller node. A real board answers through
``/dev/dma_heap/system``, the simulated one through its socket or in-process.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import resource
from typing import Protocol

from orkbench_tui.driver import uapi
from orkbench_tui.driver.device import Mapping
from orkbench_tui.errors import DeniedError, NoDeviceError

__all__ = ["SYSTEM_HEAP", "DmaBuffer", "DmaHeap", "SystemDmaHeap", "raise_descriptor_limit"]

SYSTEM_HEAP = "/dev/dma_heap/system"


class DmaBuffer(Protocol):
    """A buffer with a file descriptor of its own; ``mapping`` is the CPU's view."""

    @property
    def fd(self) -> int: ...

    @property
    def size(self) -> int:
        """Bytes, whole pages."""
        ...

    @property
    def mapping(self) -> Mapping: ...

    def sync(self, flags: uapi.DmaBufSyncFlag) -> None:
        """DMA_BUF_IOCTL_SYNC. Raises OSError."""
        ...

    def close(self) -> None:
        """Close the descriptor; a device that has imported the buffer keeps it alive."""
        ...


class DmaHeap(Protocol):
    """An open dma-heap node."""

    @property
    def name(self) -> str: ...

    def allocate(self, size: int) -> DmaBuffer:
        """A zeroed buffer of at least ``size`` bytes, mapped. Raises OSError: ENOMEM, EINVAL, EMFILE."""
        ...

    def close(self) -> None: ...


def raise_descriptor_limit() -> int:
    """Take all file descriptors the hard limit allows: every import holds one. Answers the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


class _SystemBuffer:
    def __init__(self, fd: int, size: int) -> None:
        self.fd = fd
        self.size = size
        self.mapping: Mapping = mmap.mmap(fd, size)

    def sync(self, flags: uapi.DmaBufSyncFlag) -> None:
        fcntl.ioctl(self.fd, uapi.DMA_BUF_IOCTL_SYNC, bytearray(uapi.DmaBufSync(flags=int(flags))), True)

    def close(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


class SystemDmaHeap:
    """The heap of the machine we run on.

    Raises:
        DeniedError: no permission on the node.
        NoDeviceError: the kernel has no such heap.
    """

    def __init__(self, node: str = SYSTEM_HEAP) -> None:
        self.name = node
        try:
            self._fd = os.open(node, os.O_RDWR | os.O_CLOEXEC)
        except PermissionError as error:
            raise DeniedError(
                f"no permission on {node}",
                do=f"join the group that owns it (`ls -l {node}`) and log in again",
            ) from error
        except OSError as error:
            raise NoDeviceError(
                f"cannot open {node}", why=os.strerror(error.errno or 0), do="use a kernel with dma-heaps"
            ) from error

    def allocate(self, size: int) -> DmaBuffer:
        request = uapi.DmaHeapAlloc(len=uapi.page_up(size), fd_flags=os.O_RDWR | os.O_CLOEXEC)
        argument = bytearray(request)
        fcntl.ioctl(self._fd, uapi.DMA_HEAP_IOCTL_ALLOC, argument, True)
        fd = uapi.DmaHeapAlloc.from_buffer(argument).fd
        try:
            return _SystemBuffer(fd, request.len)
        except OSError:
            os.close(fd)
            raise

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
