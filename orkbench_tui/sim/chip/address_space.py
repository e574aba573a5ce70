"""The device side of one IOMMU domain: which IOVA ranges hold which bytes."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from orkbench_tui.sim.chip.faults import DmaFault

if TYPE_CHECKING:
    from orkbench_tui.sim.chip.first_output import CleanMarks

__all__ = ["AddressSpace", "Bytes", "Segment"]

Bytes = NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Segment:
    """``data`` is what the device sees at ``iova``; it may be shared with a CPU mapping.

    ``marks`` tell when the CPU cleaned it; None where the CPU does not cache it.
    """

    iova: int
    data: Bytes
    marks: CleanMarks | None = None

    @property
    def end(self) -> int:
        return self.iova + len(self.data)


class AddressSpace:
    """Immutable, so that a running core keeps one consistent picture while buffers come and go."""

    def __init__(self, segments: tuple[Segment, ...] = ()) -> None:
        self._segments = segments
        self._starts = [segment.iova for segment in segments]

    def with_segment(self, segment: Segment) -> AddressSpace:
        at = bisect_right(self._starts, segment.iova)
        return AddressSpace((*self._segments[:at], segment, *self._segments[at:]))

    def without(self, iova: int) -> AddressSpace:
        return AddressSpace(tuple(segment for segment in self._segments if segment.iova != iova))

    def segment_at(self, iova: int) -> Segment | None:
        at = bisect_right(self._starts, iova) - 1
        if at < 0 or iova >= self._segments[at].end:
            return None
        return self._segments[at]

    def whole(self, iova: int, length: int) -> Bytes | None:
        """The bytes of a range that lies in one buffer, else None."""
        segment = self.segment_at(iova)
        if segment is None or iova + length > segment.end:
            return None
        return segment.data[iova - segment.iova : iova - segment.iova + length]

    def read(self, iova: int, length: int, what: str) -> Bytes:
        """A range as the device reads it; a copy when it spans neighbouring buffers.

        Raises:
            DmaFault: a byte of it is not mapped.
        """
        found = self.whole(iova, length)
        if found is not None:
            return found
        parts = []
        at = iova
        while at < iova + length:
            segment = self.segment_at(at)
            if segment is None:
                raise DmaFault(at, write=False, what=what)
            stop = min(segment.end, iova + length)
            parts.append(segment.data[at - segment.iova : stop - segment.iova])
            at = stop
        return np.concatenate(parts) if parts else np.zeros(0, np.uint8)

    def check_atoms(self, addresses: NDArray[np.int64], atom: int, *, write: bool, what: str) -> None:
        """Raise DmaFault at the first atom (in the order given) that is not mapped."""
        starts = np.array(self._starts, np.int64)
        ends = np.array([segment.end for segment in self._segments], np.int64)
        if len(starts) == 0:
            raise DmaFault(int(addresses.flat[0]), write=write, what=what)
        at = np.searchsorted(starts, addresses, "right") - 1
        bad = (at < 0) | (addresses + atom > ends[np.maximum(at, 0)])
        if bad.any():
            raise DmaFault(int(addresses[bad][0]), write=write, what=what)
