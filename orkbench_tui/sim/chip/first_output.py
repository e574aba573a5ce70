"""The first result after power-up or a reset, which old cache lines may cover.

A core that has run no matmul since it was powered up or reset is cold. Results of its first run do not
stay in cached memory that was never cleaned, or, for the client that ordered the reset, not since that:
what the CPU had written there is written back over them. A clean before the run or a run before it (whose
results are thrown away) cures that. Boards show it as a first submit that appears stale; which lines are
lost here is this simulator's choice.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from orkbench_tui.driver.uapi import PAGE, page_up
from orkbench_tui.sim.chip.address_space import AddressSpace, Bytes
from orkbench_tui.sim.chip.atoms import CHECKED_PIXELS, blocks, by_segment, gather_atoms, scatter_atoms
from orkbench_tui.sim.chip.dpu_operation import WriteRule
from orkbench_tui.sim.chip.write_back import ResultShape, result_atoms, result_extent

__all__ = ["CleanMarks", "CoveredResults", "now"]

_EVENTS = itertools.count(1)


def now() -> int:
    """The next moment on the count of cleans and resets."""
    return next(_EVENTS)


class CleanMarks:
    """When the CPU last cleaned each page of a cached buffer. A clean of part of a page counts."""

    def __init__(self, size: int) -> None:
        self._moments: NDArray[np.int64] = np.zeros(page_up(size) // PAGE, np.int64)
        self._since = 1

    def owner_resets(self) -> None:
        """The client this buffer belongs to resets the chip: earlier cleans count no longer."""
        self._since = now()

    def clean(self, offset: int, size: int) -> None:
        self._moments[offset // PAGE : -(-(offset + size) // PAGE)] = now()

    def stale(self, offsets: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which byte offsets lie in pages whose lines would cover what a cold core writes."""
        return np.asarray(self._moments[offsets // PAGE] < self._since)


@dataclass(slots=True)
class CoveredResults:
    """What was where a cold core wrote, to be there again when its run is over."""

    _kept: list[tuple[AddressSpace, NDArray[np.int64], Bytes]] = field(default_factory=list)

    def keep(self, rule: WriteRule, shape: ResultShape, space: AddressSpace) -> None:
        """Note the atoms of a result, which ``check_writable`` has passed, that will be covered."""
        low, high = result_extent(rule, shape)
        segment = space.segment_at(low)
        if segment is not None and high <= segment.end:
            pages = np.arange((low - segment.iova) // PAGE, -(-(high - segment.iova) // PAGE))
            if segment.marks is None or not segment.marks.stale(pages * PAGE).any():
                return
        for group in range(shape.groups):
            for pixels in blocks(shape.pixels, CHECKED_PIXELS):
                atoms = result_atoms(rule, shape, pixels, range(group, group + 1)).ravel()
                atoms = atoms[self._covered(space, atoms)]
                if len(atoms):
                    self._kept.append((space, atoms, gather_atoms(space, atoms)))

    @staticmethod
    def _covered(space: AddressSpace, atoms: NDArray[np.int64]) -> NDArray[np.bool_]:
        covered = np.zeros(len(atoms), np.bool_)
        for segment, chosen in by_segment(space, atoms):
            if segment.marks is not None:
                covered[chosen] = segment.marks.stale(atoms[chosen] - segment.iova)
        return covered

    def write_back(self) -> None:
        """Latest first, so that an atom written twice holds what was there before the run."""
        while self._kept:
            scatter_atoms(*self._kept.pop())
