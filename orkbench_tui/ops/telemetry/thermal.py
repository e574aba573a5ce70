"""Thermal zones with their trip points, told apart by ``type`` and never by number, and cooling devices."""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = ["CoolingDevice", "Trip", "parse_millicelsius", "parse_state", "zone_name"]

_NUMBER = re.compile(r"\s*(-?[0-9]{1,7})\s*", re.ASCII)
_STATE = re.compile(r"\s*([0-9]{1,5})\s*", re.ASCII)
_RANGE_MC = (-55_000, 200_000)


@dataclass(frozen=True, slots=True)
class Trip:
    """From ``celsius`` on the zone acts as ``kind`` says: active (a fan), passive (caps), hot, critical (off)."""

    kind: str
    celsius: float


@dataclass(frozen=True, slots=True)
class CoolingDevice:
    """``state`` 0 is at rest, up to ``max_state``; None where it cannot be read."""

    number: int
    kind: str
    state: int | None = None
    max_state: int | None = None

    @property
    def caps(self) -> bool:
        """Whether it takes speed away now. A fan that turns takes none."""
        return bool(self.state) and "fan" not in self.kind


def parse_millicelsius(text: str) -> float | None:
    """Degrees Celsius; None for damaged text and for values no sensor of these chips can mean."""
    found = _NUMBER.fullmatch(text)
    if found is None or not _RANGE_MC[0] <= int(found[1]) <= _RANGE_MC[1]:
        return None
    return int(found[1]) / 1000


def parse_state(text: str) -> int | None:
    """A step of a cooling device."""
    found = _STATE.fullmatch(text)
    return int(found[1]) if found else None


def zone_name(kind: str) -> str:
    """``npu-thermal`` and ``npu_thermal`` as ``npu``; other types as they are."""
    name = kind.strip()
    for ending in ("-thermal", "_thermal"):
        if name.endswith(ending) and len(name) > len(ending):
            return name[: -len(ending)]
    return name
