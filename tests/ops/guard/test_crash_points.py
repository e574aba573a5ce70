"""A seeded slice of the crash points; all of them: ``python -m tests.bench crash_points``."""

from __future__ import annotations

import random
from pathlib import Path

from tests.ops.guard.crash_points import check, points

SLICE = 60


def test_wherever_the_process_dies_resume_ends_clean(tmp_path: Path) -> None:
    everything = list(points(tmp_path / "count"))
    assert len(everything) > 500
    chosen = random.Random(8).sample(everything, SLICE)
    assert {point.operation for point in chosen} >= {"governors", "irq-affinity", "reset"}
    for number, point in enumerate(chosen):
        check(tmp_path / str(number), point)
