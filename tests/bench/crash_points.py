"""Every point at which an operation can be interrupted: ``python -m tests.bench crash_points``."""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.ops.guard.crash_points import check, points
from tests.ops.kernel import crash_points as kernel


def run() -> None:
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        everything = list(points(folder / "count"))
        resumes = sum(check(folder / str(number), point) for number, point in enumerate(everything))
    counts = Counter(point.operation for point in everything)
    for operation, count in sorted(counts.items()):
        print(f"{operation:<14} {count:4} points")
    print(
        f"{len(everything)} points, {resumes} killed resumes between them: all end clean, every node before or after "
        f"(host, {time.monotonic() - began:.0f} s)"
    )
    _kernels()


def _kernels() -> None:
    """The same for installing kernels, with power lost and what was not synced with it."""
    began = time.monotonic()
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for number, point in enumerate(kernel.points(folder / "count")):
            kernel.check(folder / str(number), point)
            counts[point.operation] += 1
    for operation, count in sorted(counts.items()):
        print(f"{operation:<16} {count:4} points")
    print(
        f"{sum(counts.values())} points, power or process lost: the board boots at each, old kernel or new, and resume "
        f"ends clean (host, {time.monotonic() - began:.0f} s)"
    )


if __name__ == "__main__":
    run()
