"""What a shared task descriptor holds, apart from the precision mode.

An element-wise or LUT operation leaves its own register amount and block mask in the descriptor it
shared with others. A matmul that runs on it starts nothing and times out, and a device reset does not
help: the reset clears registers and the LUT, the descriptor lies in memory. So the next matmul must
write its own, and this axis has no cell for "reset".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType

from orkbench_tui.driver.failures import LifetimeError
from orkbench_tui.errors import RefusedError

__all__ = ["DESCRIPTOR_TABLE", "DescriptorBook", "DescriptorEvent", "DescriptorOwner", "DescriptorState"]


class DescriptorOwner(StrEnum):
    """Whose fields the descriptor holds."""

    NOBODY = "nobody"
    MATMUL = "matmul"
    SDP = "sdp"
    LUT = "lut"


class DescriptorEvent(StrEnum):
    MATMUL_WRITTEN = "matmul written"
    SDP_RUN = "element-wise operation written or run"
    LUT_RUN = "LUT operation written or run"
    RESET = "device reset"
    FREED = "descriptor freed"


# Events not listed leave the owner as it is: a reset is one of them.
DESCRIPTOR_TABLE: Mapping[DescriptorEvent, DescriptorOwner] = MappingProxyType(
    {
        DescriptorEvent.MATMUL_WRITTEN: DescriptorOwner.MATMUL,
        DescriptorEvent.SDP_RUN: DescriptorOwner.SDP,
        DescriptorEvent.LUT_RUN: DescriptorOwner.LUT,
        DescriptorEvent.FREED: DescriptorOwner.NOBODY,
    }
)


@dataclass(slots=True)
class DescriptorState:
    """The owner of one descriptor."""

    owner: DescriptorOwner = DescriptorOwner.NOBODY

    def happened(self, event: DescriptorEvent) -> DescriptorOwner:
        """Apply an event and return the owner after it."""
        self.owner = DESCRIPTOR_TABLE.get(event, self.owner)
        return self.owner

    @property
    def must_be_written(self) -> bool:
        """Whether a matmul has to write the descriptor before it runs on it."""
        return self.owner is not DescriptorOwner.MATMUL

    def require_matmul(self) -> None:
        """Call before a matmul is submitted on this descriptor.

        Raises:
            RefusedError: the descriptor is not a matmul's.
        """
        if self.must_be_written:
            raise RefusedError(
                "matmul on a descriptor that is not its own",
                why=f"the descriptor holds the fields of {self.owner}; the job would start nothing and time out, "
                "and a reset does not restore it",
                do="write the matmul's descriptor first",
            )


@dataclass(slots=True)
class DescriptorBook:
    """Whose the descriptors of one task array are, by index. Who writes or frees them says so here."""

    _states: dict[int, DescriptorState] = field(default_factory=dict)

    def happened(self, first: int, count: int, event: DescriptorEvent) -> None:
        """An event of ``count`` descriptors from ``first`` on."""
        for index in range(first, first + count):
            self._states.setdefault(index, DescriptorState()).happened(event)

    def require(self, first: int, owner: DescriptorOwner) -> None:
        """Call before a job of ``owner`` is submitted whose descriptors begin at ``first``.

        Raises:
            RefusedError: a matmul on a descriptor that is not a matmul's.
            LifetimeError: the descriptor was given back.
        """
        state = self._states.get(first)
        if state is not None and state.owner is owner:
            return
        if owner is DescriptorOwner.MATMUL:
            (state or DescriptorState()).require_matmul()
        if state is None or state.owner is DescriptorOwner.NOBODY:
            raise LifetimeError("running a job", why="its descriptors were given back", do="compile it again")
