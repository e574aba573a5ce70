"""Arrays in NPU memory, found again by their address.

An operand that lies wholly in such memory is used where it is. One that lies partly in it is an
error: the rest would be read from addresses nobody mapped.
"""

from __future__ import annotations

from bisect import bisect_right, insort

import numpy as np

from orkbench_tui.driver import uapi
from orkbench_tui.driver.failures import OperandError
from orkbench_tui.driver.memory import Buffer, Memory, Slice

__all__ = ["UNCACHED_FLAGS", "DmaMemory", "array_address"]

UNCACHED_FLAGS = uapi.DATA_FLAGS & ~uapi.MemFlag.CACHEABLE
"""0x401: no cache maintenance; quick to poll, slow to read element by element."""


def array_address(array: np.ndarray) -> int:
    address: int = array.__array_interface__["data"][0]
    return address


class DmaMemory:
    """Hands out arrays in NPU memory and answers which of its memory an array lies in."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._starts: list[int] = []
        self._buffers: dict[int, tuple[int, Buffer]] = {}

    def array(
        self, shape: tuple[int, ...], dtype: type[np.generic], *, cached: bool = True, domain: int = 0
    ) -> np.ndarray:
        """Zeros of ``shape`` and ``dtype`` in NPU memory.

        Cached memory is synced by every run that uses it; ``cached`` off is for results that are polled.

        Raises:
            OperandError: an empty or negative shape.
            NoMemoryError, RefusedError: see ``Memory.allocate``.
        """
        count = int(np.prod(shape, dtype=np.int64)) if min(shape, default=1) > 0 else 0
        if count < 1:
            raise OperandError(f"array of shape {shape}", why="every size must be at least 1")
        size = count * np.dtype(dtype).itemsize
        buffer = self._memory.allocate(size, uapi.DATA_FLAGS if cached else UNCACHED_FLAGS, domain)
        array = buffer.view[:size].view(dtype).reshape(shape)
        start = array_address(array)
        insort(self._starts, start)
        self._buffers[start] = (size, buffer)
        return array

    def find(self, array: np.ndarray, what: str) -> Slice | None:
        """Where ``array`` (contiguous) lies in this memory; None when it is elsewhere.

        Raises:
            OperandError: only a part of it does.
        """
        return self.find_range(array_address(array), array.nbytes, what)

    def find_range(self, address: int, size: int, what: str) -> Slice | None:
        """The same by address."""
        at = bisect_right(self._starts, address) - 1
        for start in self._starts[max(at, 0) : at + 2]:
            length, buffer = self._buffers[start]
            if not buffer.live or address >= start + length or address + size <= start:
                continue
            if start <= address and address + size <= start + length:
                return Slice(buffer, address - start, size)
            raise OperandError(
                f"{what} lies partly in NPU memory",
                why=f"{size} bytes at {address:#x}; the NPU array has {length} bytes at {start:#x}",
                do="use an array that lies in it wholly or not at all",
            )
        return None

    def ends_array(self, part: Slice) -> bool:
        """Whether ``part`` reaches the end of its array, so that no neighbour shares its last cache line."""
        size = next(size for size, buffer in self._buffers.values() if buffer is part.buffer)
        return part.offset + part.size == size

    def free(self, array: np.ndarray) -> None:
        """Release an array of ``array()``; neither it nor what was compiled with it may be used afterwards.

        Raises:
            OperandError: not the start of such an array.
        """
        start = array_address(array)
        if start not in self._buffers:
            raise OperandError(f"array at {start:#x}", why="it is no array of this NPU's memory")
        self._memory.free(self._buffers.pop(start)[1])
        self._starts.remove(start)
