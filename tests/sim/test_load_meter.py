"""Load is counted in one-second windows that do not slide."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from orkbench_tui.sim.kernel.load_meter import LoadMeter

S = 1_000_000_000


def test_a_window_shows_only_after_it_has_closed() -> None:
    meter = LoadMeter(S)
    meter.start(S // 10)
    meter.stop(S // 2)
    assert meter.percent(S - 1) == 0
    assert meter.percent(S) == 40
    assert meter.percent(2 * S - 1) == 40
    assert meter.percent(2 * S) == 0


def test_a_running_job_is_credited_up_to_each_tick() -> None:
    meter = LoadMeter(S)
    meter.start(S // 4)
    assert meter.percent(S) == 75
    assert meter.percent(2 * S + 1) == 100
    meter.stop(3 * S + S // 5)
    assert meter.percent(3 * S + S // 2) == 100
    assert meter.percent(4 * S) == 20


def test_a_clock_that_jumps_counts_a_stuck_job_as_busy() -> None:
    meter = LoadMeter(S)
    meter.start(S // 2)
    assert meter.percent(7 * S) == 100
    meter.stop(7 * S)
    assert meter.total_ns == 6 * S + S // 2


@given(st.lists(st.tuples(st.integers(0, 2 * S), st.integers(0, 2 * S)), max_size=20))
def test_no_busy_time_is_lost_or_counted_twice(spans: list[tuple[int, int]]) -> None:
    meter, now, busy = LoadMeter(S), 0, 0
    for gap, length in spans:
        now += gap
        meter.start(now)
        now += length
        meter.stop(now)
        busy += length
        assert 0 <= meter.percent(now) <= 100
    assert meter.total_ns == busy
