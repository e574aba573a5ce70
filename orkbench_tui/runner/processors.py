"""How many threads a computation should have."""

from __future__ import annotations

import os
from pathlib import Path

from orkbench_tui.driver.affinity import big_threshold

__all__ = ["big_threshold", "fast_processors"]

_CPUS = Path("/sys/devices/system/cpu")


def fast_processors(cpus: Path = _CPUS, allowed: set[int] | None = None) -> int:
    """Processors of the big cluster among those this process may run on; at least 1.

    On a chip with big and little cores a step is as slow as its slowest thread, so the little ones
    only cost. Where the kernel gives no ``cpu_capacity`` all are taken to be equal.
    """
    usable = os.sched_getaffinity(0) if allowed is None else allowed
    capacities = [_capacity(cpus / f"cpu{number}" / "cpu_capacity") for number in sorted(usable)]
    threshold = big_threshold(capacities)
    return max(1, sum(capacity >= threshold for capacity in capacities))


def _capacity(path: Path) -> int:
    try:
        return int(path.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return 0
