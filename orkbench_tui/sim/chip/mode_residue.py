"""What a run leaves in a core that spoils a run of another precision, until a reset.

Boards that skipped the reset between int4 chains and int8 computed nonsense; nobody knows the mechanism,
and single small programs stayed right. So the rule here is the smallest one with those symptoms: linked
int4 runs and int8 do not follow one another, linked int4 does not follow 16 bits, and a 16-bit run is
always right and ends what was left.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType

from orkbench_tui.driver.regcmd.registers import Precision

__all__ = ["SPOILS", "ModeResidue", "RunKind", "run_kind"]


class RunKind(StrEnum):
    """A convolution as the hazard sees it."""

    WIDE = "16 bits or more"
    INT8 = "int8"
    INT4 = "int4"
    INT4_LINKED = "linked int4"


def run_kind(precision: Precision, *, linked: bool) -> RunKind:
    """``linked``: the program is one of several of its commit."""
    if precision is Precision.INT8:
        return RunKind.INT8
    if precision is Precision.INT4:
        return RunKind.INT4_LINKED if linked else RunKind.INT4
    return RunKind.WIDE


SPOILS: frozenset[tuple[RunKind, RunKind]] = frozenset(
    {
        (RunKind.INT4_LINKED, RunKind.INT8),
        (RunKind.INT8, RunKind.INT4_LINKED),
        (RunKind.WIDE, RunKind.INT4_LINKED),
    }
)
"""(what was left, what runs): its results are wrong, and those of every integer run after it."""

# A single int4 program leaves what it found.
_LEAVES: Mapping[RunKind, RunKind] = MappingProxyType(
    {kind: kind for kind in (RunKind.WIDE, RunKind.INT8, RunKind.INT4_LINKED)}
)


class ModeResidue:
    """The state of one core since its last reset."""

    def __init__(self) -> None:
        self.left: RunKind | None = None
        self.spoiled = False

    def run(self, kind: RunKind) -> bool:
        """Note a convolution; true when its results come out wrong."""
        if kind is RunKind.WIDE:
            self.left, self.spoiled = kind, False
            return False
        self.spoiled |= self.left is not None and (self.left, kind) in SPOILS
        self.left = _LEAVES.get(kind, self.left)
        return self.spoiled
