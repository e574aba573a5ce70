"""A seeded slice of the crash points; all of them: ``python -m tests.bench crash_points``."""

from __future__ import annotations

import random
from pathlib import Path

from tests.ops.kernel.crash_points import BOARDS, OPERATIONS, check, points

SLICE = 25


def test_whenever_power_goes_the_board_boots_and_resume_ends_clean(tmp_path: Path) -> None:
    everything = list(points(tmp_path / "count"))
    assert len(everything) > 3000
    assert {point.board for point in everything} == set(BOARDS)
    chosen = []
    for name in OPERATIONS:
        of_one = [point for point in everything if point.operation == name]
        assert len(of_one) > 30, name
        chosen += random.Random(8).sample(of_one, SLICE)
    for number, point in enumerate(chosen):
        check(tmp_path / str(number), point)
