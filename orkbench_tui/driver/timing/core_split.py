"""int4 on some cores and int8 on the others, against all cores changing between the two: a what-if, not a plan.

Whether a core's precision is its own was never shown on silicon, so nothing dispatches this way.
"""

from __future__ import annotations

from dataclasses import dataclass

from orkbench_tui.driver.timing.submits import reset_ns

__all__ = ["ENABLED", "SplitWhatIf", "split_what_if"]

ENABLED = False
"""Unproven: see the closed hypothesis ``core-split``."""


@dataclass(frozen=True, slots=True)
class SplitWhatIf:
    """Nanoseconds of one pass.

    ``alternating``: all cores do both and reset between. ``static``: the split holds throughout.
    ``dynamic``: all cores take what is left where only one precision is live, with a reset for each change.
    """

    alternating: float
    static: float
    dynamic: float

    @property
    def best(self) -> str:
        times = {"alternating": self.alternating, "static": self.static, "dynamic": self.dynamic}
        return min(times, key=lambda name: times[name])


def split_what_if(
    int4_ns: float, int8_ns: float, transitions: int, *, cores: int = 3, int4_cores: int = 2
) -> SplitWhatIf:
    """``int4_ns`` and ``int8_ns`` are the work of one core, ``transitions`` the handoffs of a pass.

    Raises:
        ValueError: a split that leaves a precision without a core, or negative work.
    """
    if not 0 < int4_cores < cores or min(int4_ns, int8_ns, transitions) < 0:
        raise ValueError(f"{int4_cores} of {cores} cores for int4, {int4_ns} and {int8_ns} ns")
    alone4, alone8 = int4_ns / int4_cores, int8_ns / (cores - int4_cores)
    both = min(alone4, alone8)
    left4, left8 = int4_ns - both * int4_cores, int8_ns - both * (cores - int4_cores)
    # The cores that change over for the rest are reset once on the way and once for the next pass.
    changes = 2 if max(left4, left8) > 1e-9 else 0
    return SplitWhatIf(
        (int4_ns + int8_ns) / cores + reset_ns(transitions),
        max(alone4, alone8),
        both + (left4 + left8) / cores + reset_ns(changes),
    )
