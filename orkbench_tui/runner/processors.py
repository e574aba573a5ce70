"""How many threads a computation should have."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

__all__ = ["big_threshold", "fast_processors"]

_CPUS = Path("/sys/devices/system/cpu")
_GAP = 1.20


def fast_processors(cpus: Path = _CPUS, allowed: set[int] | None = None) -> int:
    """Processors of the big cluster among those this process may run on; at least 1.

    On a chip with big and little cores a step is as slow as its slowest thread, so the little ones
    only cost. Where the kernel gives no ``cpu_capacity`` all are taken to be equal.
    """
    usable = os.sched_getaffinity(0) if allowed is None else allowed
    capacities = [_capacity(cpus / f"cpu{number}" / "cpu_capacity") for number in sorted(usable)]
    threshold = big_threshold(capacities)
    return max(1, sum(capacity >= threshold for capacity in capacities))


def big_threshold(capacities: Sequence[int]) -> int:
    """The smallest capacity that still counts as big.

    The big ones lie above the widest relative gap, if that is at least 1.20: two A76 clusters of one
    chip differ by a few percent from binning, and taking only the very fastest halves the threads.
    """
    distinct = sorted(set(capacities) - {0})
    gaps = [(high / max(low, 1), high) for low, high in pairwise(distinct)]
    ratio, above = max(gaps, default=(1.0, 0))
    return above if ratio >= _GAP else 0


def _capacity(path: Path) -> int:
    try:
        return int(path.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return 0
