"""Paired differences: the mean, its interval, and what cannot be paired."""

from __future__ import annotations

import math

import numpy as np
import pytest

from orkbench_tui.runner.paired import excess, paired_difference


def test_the_interval_covers_the_truth_about_as_often_as_it_says() -> None:
    rng = np.random.default_rng(0)
    inside = 0
    for _ in range(400):
        first = rng.exponential(3, 200)
        found = paired_difference(first, first + 0.01 + 0.05 * rng.standard_normal(200))
        inside += found.low <= 0.01 <= found.high
    assert 0.91 < inside / 400 < 0.98


def test_figures() -> None:
    found = paired_difference(np.array([1.0, 2, 3, 4]), np.array([1.5, 2, 3, 3.9]))
    assert found.mean == pytest.approx(0.1) and found.ratio == pytest.approx(math.exp(0.1))
    assert (found.tokens, found.largest) == (4, 0.5) and not found.decided
    same = paired_difference(np.ones(5), np.ones(5))
    assert (same.mean, same.low, same.high, same.decided) == (0, 0, 0, False)
    assert paired_difference(np.arange(9.0), np.arange(9.0) + 0.2).decided


@pytest.mark.parametrize("sizes", [(3, 4), (1, 1), (0, 0)])
def test_unequal_or_too_few(sizes: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="cannot be paired"):
        paired_difference(np.zeros(sizes[0]), np.zeros(sizes[1]))


def test_excess_is_what_a_format_adds() -> None:
    # Published: 12.0266, 12.9964 and 15.9011 over 11.7783.
    added = [excess(value, 11.7783) for value in (12.0266, 12.9964, 15.9011)]
    assert [round(value, 2) for value in added] == [0.25, 1.22, 4.12]
    assert added[2] / added[1] == pytest.approx(3.4, abs=0.05)
