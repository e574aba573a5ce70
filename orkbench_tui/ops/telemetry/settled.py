"""A sample to be read once: a core that looks wedged is watched until it is certain."""

from __future__ import annotations

import time
from collections.abc import Callable

from orkbench_tui.ops.telemetry.sample import Sample
from orkbench_tui.ops.telemetry.stillness import STUCK_S

__all__ = ["settled"]

_SLACK_S = 0.5


def settled(
    take: Callable[[], Sample],
    pause_s: float,
    *,
    steady: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], object] = time.sleep,
) -> Sample:
    """The first sample whose state is certain, or the last one taken in the time that takes.

    ``take`` gives samples with rates; ``pause_s`` lies between two of them.
    """
    sample = take()
    deadline_s = steady() + STUCK_S + _SLACK_S
    while _undecided(sample) and steady() < deadline_s:
        sleep(pause_s)
        sample = take()
    return sample


def _undecided(sample: Sample) -> bool:
    return any(
        core.load_pct == 100 and core.irq_per_s == 0 and core.stuck_s < STUCK_S for core in sample.npu.cores
    )
