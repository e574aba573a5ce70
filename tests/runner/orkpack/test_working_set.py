"""Memory a model needs, against what there is."""

from __future__ import annotations

import pytest

from orkbench_tui.runner.orkpack.working_set import WorkingSet

GIB = 1 << 30


def gib(value: float) -> int:
    return round(value * GIB)


def test_the_published_case_does_not_fit_and_says_what_it_would_look_like() -> None:
    found = WorkingSet(gib(28.6), gib(12.2), 0, 0, gib(31))
    assert found.needed / GIB == pytest.approx(40.8, abs=0.05)
    assert found.tight and not found.fits
    assert "40.8 GiB of 31.0 GiB" in found.line() and "reset" in found.line()
    alone = WorkingSet(0, gib(12.2), gib(1), gib(1), gib(31))
    assert alone.fits and not alone.tight and ":" not in alone.line().partition("runs: ")[2]


@pytest.mark.parametrize(
    ("needed", "tight", "fits"), [(84, False, True), (86, True, True), (101, True, False)]
)
def test_bounds(needed: int, tight: bool, fits: bool) -> None:
    found = WorkingSet(0, needed, 0, 0, 100)
    assert (found.tight, found.fits) == (tight, fits)


def test_an_unknown_memory_is_unknown() -> None:
    found = WorkingSet(0, GIB, 0, 0, None)
    assert found.share is None and found.fits and not found.tight and "not known" in found.line()
    assert found.as_dict()["memory_bytes"] is None
