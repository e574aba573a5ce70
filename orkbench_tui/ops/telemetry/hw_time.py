"""``rknpu/hw_time``: finished jobs and hardware time of every core, from a driver with the job-hw-time patch."""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = ["CoreTime", "busy_share", "parse_hw_time"]

_LINE = re.compile(r"core([0-9]{1,2}): jobs ([0-9]{1,20}) hw_ns ([0-9]{1,20})", re.ASCII)


@dataclass(frozen=True, slots=True)
class CoreTime:
    """Totals since the driver was loaded: ``hw_ns`` from hand-over to the hardware to its completion."""

    core: int
    jobs: int
    hw_ns: int


def parse_hw_time(text: str) -> tuple[CoreTime, ...] | None:
    """Cores in order; None when a line is of another form."""
    cores: dict[int, CoreTime] = {}
    for line in text.splitlines():
        found = _LINE.fullmatch(line.strip())
        if found is None:
            return None
        core = int(found[1])
        cores[core] = CoreTime(core, int(found[2]), int(found[3]))
    return tuple(cores[core] for core in sorted(cores)) or None


def busy_share(before: CoreTime | None, after: CoreTime, span_s: float | None) -> float | None:
    """Percent of ``span_s`` that jobs finished in it had the hardware, at most 100.

    None without an earlier reading, and for counters that went back (the driver was loaded again). A job that
    began before the span counts whole, so one span may say more than happened in it; sums over spans do not.
    """
    if before is None or not span_s or after.hw_ns < before.hw_ns or after.jobs < before.jobs:
        return None
    return min(100.0, (after.hw_ns - before.hw_ns) / (span_s * 1e7))
