"""Short seeded slices of what ``make fuzz`` and ``make soak`` run for long."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.sim.robustness import fuzz, soak


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_mutated_programs_and_calls_break_nothing(seed: int) -> None:
    outcome = fuzz.run(400, seed)
    assert outcome.cases == 400
    assert outcome.endings["ok"] > 5, "mutations so heavy that nothing runs test little"
    assert outcome.endings["ETIMEDOUT"] > 20


def test_four_clients_at_once_get_exact_results_and_leave_nothing(runtime_dir: Path) -> None:
    found = soak.run(3.0, seed=1)
    assert found.jobs > 20
    assert found.wrong == 0
    assert found.npu_bytes == 0
