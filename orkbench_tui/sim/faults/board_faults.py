"""Which faults a board can have at all, and in which variants: what it has no part for changes nothing there."""

from __future__ import annotations

from dataclasses import replace

from orkbench_tui.sim.boards.profile import BoardProfile
from orkbench_tui.sim.faults.catalogue import CATALOGUE, Fault, Part

__all__ = ["faults_of", "why_not"]

_MISSING = {
    Part.RKNPU: "no rknpu driver",
    Part.IOMMU: "no IOMMU before its NPU",
}


def _has(profile: BoardProfile, part: Part) -> bool:
    return {Part.RKNPU: profile.driver is not None, Part.IOMMU: profile.iommu_enabled}[part]


def why_not(fault: Fault, profile: BoardProfile) -> str:
    """What the board lacks for the fault; "" where it can have it."""
    return next((f"it has {_MISSING[part]}" for part in fault.needs if not _has(profile, part)), "")


def _values(fault: Fault, profile: BoardProfile) -> tuple[str, ...]:
    """Its variants there: of cores only those the chip has, of drivers only others than the board's own."""
    own = profile.driver.name if profile.driver is not None else ""
    return tuple(
        value
        for value in fault.values
        if not (fault.variant_is_core and value.isdigit() and int(value) >= profile.soc.cores)
        and not (fault.variant_is_driver and value == own)
    )


def faults_of(profile: BoardProfile) -> dict[str, Fault]:
    """The faults that board can have, by name, with the variants it can have them in."""
    return {
        name: replace(fault, values=_values(fault, profile))
        for name, fault in CATALOGUE.items()
        if not why_not(fault, profile)
    }
