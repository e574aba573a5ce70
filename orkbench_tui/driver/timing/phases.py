"""Where the time of one piece of work went: shares of its phases, and what a faster phase would make of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["Phase", "faster", "phases"]


@dataclass(frozen=True, slots=True)
class Phase:
    """``share`` of the whole is 0 to 1."""

    name: str
    us: float
    share: float


def phases(times_us: Mapping[str, float]) -> tuple[Phase, ...]:
    """Longest first; shares sum to one.

    Raises:
        ValueError: no time at all, or a negative one.
    """
    whole = sum(times_us.values())
    if not whole > 0 or any(not us >= 0 for us in times_us.values()):
        raise ValueError(f"phases of {dict(times_us)} us")
    found = [Phase(name, us, us / whole) for name, us in times_us.items()]
    return tuple(sorted(found, key=lambda phase: -phase.us))


def faster(times_us: Mapping[str, float], phase: str, factor: float) -> tuple[float, tuple[Phase, ...]]:
    """(how many times faster the whole gets, its phases then) when ``phase`` alone gets ``factor`` times faster.

    Raises:
        KeyError: no such phase.
        ValueError: a factor of 0 or less.
    """
    if not factor > 0:
        raise ValueError(f"{factor} times faster")
    changed = {**times_us, phase: times_us[phase] / factor}
    return sum(times_us.values()) / sum(changed.values()), phases(changed)
