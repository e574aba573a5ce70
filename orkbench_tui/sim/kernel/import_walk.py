"""What a chain sees of imported mappings: the NPU copes with a few, then stops.

Boards were seen to run chains over six separately imported mappings and to hang with nineteen; native
buffers have no such limit. The simulated limit is the last number that worked.
"""

from __future__ import annotations

from orkbench_tui.sim.chip.address_space import AddressSpace, Segment
from orkbench_tui.sim.chip.faults import ChipFault

__all__ = ["MAX_MAPPINGS", "ImportWalk"]

MAX_MAPPINGS = 6


class ImportWalk(AddressSpace):
    """The address space of one commit; counts the imports it touches."""

    def __init__(self, space: AddressSpace, imported: frozenset[int]) -> None:
        """``imported`` holds the first IOVA of every imported mapping in ``space``."""
        super().__init__(space._segments)
        self._imported = imported
        self._walked: set[int] = set()

    def segment_at(self, iova: int) -> Segment | None:
        found = super().segment_at(iova)
        if found is not None and found.iova in self._imported:
            self._walked.add(found.iova)
            if len(self._walked) > MAX_MAPPINGS:
                raise ChipFault(
                    f"[imports] the chain walks more than {MAX_MAPPINGS} imported mappings; "
                    f"the one at {found.iova:#x} is one too many"
                )
        return found
