"""What the NPU sees under drivers that switch domains without looking who runs: always the live tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numpy.typing import NDArray

from orkbench_tui.sim.chip.address_space import AddressSpace, Bytes, Segment

__all__ = ["LiveSpace"]


class LiveSpace(AddressSpace):
    """``live`` answers the address space of the domain that is live now."""

    def __init__(self, live: Callable[[], AddressSpace]) -> None:
        super().__init__()
        self._live = live

    def segment_at(self, iova: int) -> Segment | None:
        return self._live().segment_at(iova)

    def whole(self, iova: int, length: int) -> Bytes | None:
        return self._live().whole(iova, length)

    def read(self, iova: int, length: int, what: str) -> Bytes:
        return self._live().read(iova, length, what)

    def check_atoms(self, addresses: NDArray[Any], atom: int, *, write: bool, what: str) -> None:
        self._live().check_atoms(addresses, atom, write=write, what=what)
