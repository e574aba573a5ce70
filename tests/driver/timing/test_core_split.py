"""The split of cores by precision, as a what-if: what it costs, when it would pay, and that nothing does it."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import orkbench_tui
from orkbench_tui.driver.timing.core_split import ENABLED, split_what_if
from orkbench_tui.driver.timing.submits import reset_ns


def test_a_static_split_costs_int4_a_third_of_its_rate() -> None:
    found = split_what_if(3e9, 0, 0)
    assert found.alternating / found.static == pytest.approx(2 / 3)
    assert found.best == "alternating"


def test_many_resets_are_what_it_would_save() -> None:
    """160 resets of 105 ms against work of some seconds, as in a pass of mixed tiers."""
    found = split_what_if(2e9, 1e9, 160)
    assert found.alternating == pytest.approx(1e9 + reset_ns(160))
    assert found.static == found.dynamic == 1e9, "both halves end together"
    assert found.best in ("static", "dynamic")


def test_falling_back_to_all_cores_beats_a_static_split_where_one_precision_dominates() -> None:
    found = split_what_if(100e9, 1e9, 160)
    assert found.dynamic < found.static
    # With two resets, as in a uniform pack, nothing is left to save.
    assert split_what_if(100e9, 1e9, 2).best == "alternating"


@given(st.floats(0, 1e12), st.floats(0, 1e12), st.integers(0, 1000))
def test_no_schedule_beats_the_work_over_all_cores(int4: float, int8: float, transitions: int) -> None:
    found = split_what_if(int4, int8, transitions)
    least = (int4 + int8) / 3
    assert min(found.alternating, found.static, found.dynamic) >= least * (1 - 1e-9)


@pytest.mark.parametrize("split", [(1, 1, 1, 3, 3), (1, 1, 1, 3, 0), (-1, 1, 1, 3, 2)])
def test_splits_that_are_none(split: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="cores for int4"):
        split_what_if(*split[:3], cores=split[3], int4_cores=split[4])


def test_it_is_off_and_nothing_dispatches_by_it() -> None:
    assert ENABLED is False
    package = Path(orkbench_tui.__file__).parent
    users = [p for p in package.rglob("*.py") if "split_what_if" in p.read_text(encoding="utf-8")]
    assert {p.relative_to(package).parent.as_posix() for p in users} == {"driver/timing"}
    readers = [p for p in package.rglob("*.py") if "timing.what_ifs" in p.read_text(encoding="utf-8")]
    assert {p.relative_to(package).as_posix() for p in readers} == {"cli/npu_what_ifs.py"}
