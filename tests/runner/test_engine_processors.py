"""Threads by default: the big cores of a big.LITTLE chip, all cores elsewhere."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from orkbench_tui.runner.processors import big_threshold, fast_processors


def rk3588(folder: Path) -> Path:
    """Four Cortex-A55 and four Cortex-A76, as the kernel describes them."""
    for number in range(8):
        (folder / f"cpu{number}").mkdir()
        (folder / f"cpu{number}" / "cpu_capacity").write_text("414\n" if number < 4 else "1024\n")
    return folder


@pytest.mark.parametrize(
    ("allowed", "expected"), [({*range(8)}, 4), ({0, 1, 2, 3}, 4), ({2, 3, 4}, 1), ({5, 6}, 2), (set(), 1)]
)
def test_only_the_fastest_kind_counts(tmp_path: Path, allowed: set[int], expected: int) -> None:
    assert fast_processors(rk3588(tmp_path), allowed) == expected


def test_without_capacities_all_are_equal(tmp_path: Path) -> None:
    assert fast_processors(tmp_path, {0, 1, 5}) == 3
    assert fast_processors(tmp_path) == len(os.sched_getaffinity(0))


def test_a_capacity_that_is_no_number_is_ignored(tmp_path: Path) -> None:
    board = rk3588(tmp_path)
    (board / "cpu7" / "cpu_capacity").write_text("fast\n")
    assert fast_processors(board, {*range(8)}) == 3


@pytest.mark.parametrize(
    ("capacities", "threshold"),
    [
        ([405, 405, 1003, 1003, 1024, 1024], 1003),
        ([1003, 1024], 0),
        ([430, 700, 1024], 700),
        ([1024, 1024], 0),
        ([], 0),
    ],
)
def test_binning_inside_a_cluster_is_no_gap(capacities: list[int], threshold: int) -> None:
    assert big_threshold(capacities) == threshold
