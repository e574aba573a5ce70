"""Sizes of a model split between NPU and CPU, and what its tokens wait for."""

from __future__ import annotations

import pytest

from orkbench_tui.driver.timing.asymmetric import sizing, token_bound


def test_the_published_draft_streams_300_mb_a_token_and_fits_one_window() -> None:
    found = sizing(2.1e9, 600e6)
    assert found.token_bytes == pytest.approx(300e6)
    assert found.npu_bytes == pytest.approx(2.1e9) and found.windows == 1
    assert sizing(4.4e9, 600e6).windows == 2


def test_one_core_waits_for_its_loads_before_the_memory_is_busy() -> None:
    one = token_bound(300e6)
    assert (one.bound, one.rate) == ("latency", 8.0)
    assert one.rate < 21.9 and one.tokens_per_s == pytest.approx(26.7, abs=0.05)
    assert token_bound(300e6, 2).bound == "latency"
    four = token_bound(300e6, 4)
    assert (four.bound, four.rate) == ("bandwidth", 21.9)
    assert token_bound(300e6, 8) == four


@pytest.mark.parametrize(("parameters", "active"), [(1e9, 0), (1e9, 2e9), (0, 0)])
def test_sizes_that_cannot_be(parameters: float, active: float) -> None:
    with pytest.raises(ValueError, match="active of"):
        sizing(parameters, active)


def test_no_cores() -> None:
    with pytest.raises(ValueError, match="0 cores"):
        token_bound(1.0, 0)
