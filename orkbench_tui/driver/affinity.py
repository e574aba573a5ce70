"""Which processors the threads that drive the NPU run on: the big ones.

A worker on a little core is about twice as slow in every phase, so three cores of the NPU gave hardly more
than one. Only our own worker threads are pinned: the process is left alone, since forcing all of it onto
the big cores was seen to cost three quarters of decode (GRD-25).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import pairwise
from pathlib import Path

__all__ = ["big_processors", "big_threshold", "on_big_processors", "pin_this_thread", "worth_moving_to"]

CPUS = Path("/sys/devices/system/cpu")
_GAP = 1.20


def big_threshold(capacities: Sequence[int]) -> int:
    """The smallest capacity that still counts as big.

    The big ones lie above the widest relative gap, if that is at least 1.20: two A76 clusters of one
    chip differ by a few percent from binning, and taking only the very fastest halves the threads.
    """
    distinct = sorted(set(capacities) - {0})
    gaps = [(high / max(low, 1), high) for low, high in pairwise(distinct)]
    ratio, above = max(gaps, default=(1.0, 0))
    return above if ratio >= _GAP else 0


def big_processors(cpus: Path = CPUS, allowed: set[int] | None = None) -> frozenset[int]:
    """Processors of the big cluster among those this process may run on.

    Where the kernel gives no ``cpu_capacity`` the highest clock decides; where it gives neither, or all
    are equal, every processor is big.
    """
    usable = sorted(os.sched_getaffinity(0) if allowed is None else allowed)
    speeds = [_speed(cpus / f"cpu{number}") for number in usable]
    threshold = big_threshold(speeds)
    return frozenset(
        number for number, speed in zip(usable, speeds, strict=True) if speed >= threshold
    ) or frozenset(usable)


def _speed(cpu: Path) -> int:
    for name in ("cpu_capacity", "cpufreq/cpuinfo_max_freq"):
        try:
            return int((cpu / name).read_text(encoding="ascii"))
        except (OSError, ValueError):
            continue
    return 0


def pin_this_thread(processors: frozenset[int]) -> bool:
    """Keep the calling thread on ``processors``; False, and nothing changed, where that is not allowed."""
    if not processors:
        return False
    try:
        # 0 is the calling thread, not the process.
        os.sched_setaffinity(0, processors)
    except (OSError, ValueError):
        return False
    return True


@cache
def worth_moving_to() -> frozenset[int]:
    """The big processors where there are others as well; none on a machine whose processors are all alike."""
    usable = frozenset(os.sched_getaffinity(0))
    big = big_processors(allowed=set(usable))
    return big if big != usable else frozenset()


@contextmanager
def on_big_processors(big: frozenset[int]) -> Iterator[None]:
    """The calling thread on ``big`` for the length of a call, and where it was before afterwards.

    For calls whose host work runs on the caller. Scoped, it takes no processor from the threads of a model:
    1.13 times in decode, where a lasting pin cost a third of prefill. A chain's doorbell got slower by it.
    """
    before = os.sched_getaffinity(0) if big else set()
    moved = bool(big) and not before <= big and pin_this_thread(big)
    try:
        yield
    finally:
        if moved:
            pin_this_thread(frozenset(before))
