"""Whether an operation is bound by its submit or by its work, and what would help it.

Below the submit floor handing over costs more than computing; above, it is a rounding error.
"""

from __future__ import annotations

from enum import StrEnum

from orkbench_tui.driver.timing.constants import value

__all__ = ["Help", "Regime", "floor_share", "helped_by", "hook_gain", "regime"]


class Regime(StrEnum):
    MICRO = "micro-operation"
    MONOLITHIC = "monolithic"


class Help(StrEnum):
    """``HOOK`` is a callback of the kernel between two tasks, which nobody has built."""

    NOTHING = "nothing: its work is what it costs"
    CHAIN = "one linked submit"
    POLL = "a submit that does not wait"
    HOOK = "a callback of the kernel between tasks"


def regime(compute_ns: float) -> Regime:
    """``compute_ns`` is the NPU's time of one operation."""
    return Regime.MICRO if compute_ns < value("submit_floor") else Regime.MONOLITHIC


def floor_share(compute_ns: float) -> float:
    """Part of a blocking submit that is its floor, 0 to 1."""
    return value("submit_floor") / (value("submit_floor") + compute_ns)


def helped_by(compute_ns: float, *, cpu_between: bool, independent: bool) -> Help:
    """What pays for many operations of ``compute_ns`` each.

    Args:
        cpu_between: a step of the CPU lies between one and the next.
        independent: others are there to run meanwhile; a chain of decode steps has none.
    """
    if regime(compute_ns) is Regime.MONOLITHIC:
        return Help.NOTHING
    if not cpu_between:
        return Help.CHAIN
    return Help.HOOK if independent else Help.POLL


def hook_gain(compute_ns: float, cpu_ns: float) -> float:
    """At most how many times faster operations with a CPU step between them get by such a callback.

    It takes the submit floor away and neither the NPU's nor the CPU's work.
    """
    work = compute_ns + cpu_ns
    return (value("submit_floor") + work) / work
