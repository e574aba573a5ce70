"""IOVA ranges of one domain: top-down, page granular, first hole from the top that fits."""

from __future__ import annotations

from orkbench_tui.driver.soc import RK3588
from orkbench_tui.driver.uapi import PAGE, page_up

__all__ = ["IovaAllocator"]

TOP = RK3588.iova_space_bytes - PAGE
"""The last page of the window is never handed out: the first one-page buffer is at 0xffffe000."""

BOTTOM = PAGE


class IovaAllocator:
    def __init__(self) -> None:
        self._holes: list[tuple[int, int]] = [(BOTTOM, TOP)]
        self.next_address: int | None = None
        """Where the next range goes if it is free there: a replay puts buffers where they were."""

    @property
    def free_bytes(self) -> int:
        return sum(end - start for start, end in self._holes)

    def allocate(self, size: int, align: int = PAGE) -> int | None:
        """Start of a range of ``size`` bytes (rounded up to pages), or None when no hole fits."""
        size = page_up(size)
        wanted, self.next_address = self.next_address, None
        if wanted is not None and self._claim(wanted, size):
            return wanted
        for at in range(len(self._holes) - 1, -1, -1):
            start, end = self._holes[at]
            address = (end - size) // align * align
            if address >= start:
                left = [(start, address)] if start < address else []
                right = [(address + size, end)] if address + size < end else []
                self._holes[at : at + 1] = left + right
                return address
        return None

    def _claim(self, address: int, size: int) -> bool:
        for at, (start, end) in enumerate(self._holes):
            if start <= address and address + size <= end:
                left = [(start, address)] if start < address else []
                right = [(address + size, end)] if address + size < end else []
                self._holes[at : at + 1] = left + right
                return True
        return False

    def free(self, address: int, size: int) -> None:
        """Give a range back; neighbouring holes merge."""
        start, end = address, address + page_up(size)
        at = 0
        while at < len(self._holes) and self._holes[at][0] < start:
            at += 1
        if at < len(self._holes) and self._holes[at][0] == end:
            end = self._holes.pop(at)[1]
        if at and self._holes[at - 1][1] == start:
            at -= 1
            start = self._holes.pop(at)[0]
        self._holes.insert(at, (start, end))
