"""The sampler: its windows, its ticks, and a board that stops answering."""

from __future__ import annotations

import time

import pytest

from orkbench_tui.runner.bench.utilization import Reading, Recorder, phase_of, utilization_lines


def reading(at: float, npu: tuple[int | None, ...], busy: int = 0, idle: int = 0) -> Reading:
    return Reading(at, npu, {4: (busy, idle), 7: (2 * busy, idle)})


def phase(readings: list[Reading], began: float, ended: float):
    return phase_of("p", readings, began, ended, 10.0, npu_label="measured", cpu_label="measured")


def test_readings_of_the_first_window_speak_of_what_was_before() -> None:
    readings = [reading(i * 0.15, (0, 0, 0) if i * 0.15 < 1 else (40, 50, 60)) for i in range(20)]
    assert phase(readings, 0.0, 3.0).npu == (40.0, 50.0, 60.0)


def test_a_phase_without_a_whole_window_has_no_figure() -> None:
    found = phase([reading(0.1, (90, 90, 90)), reading(0.9, (90, 90, 90))], 0.0, 0.9)
    assert found.npu == (None, None, None)
    assert any("shorter than two" in line for line in utilization_lines([found]))


def test_all_three_cores_are_read_and_an_unreadable_one_is_unknown() -> None:
    readings = [reading(1.5, (38, 40, None)), reading(2.0, (40, 42, None))]
    found = phase(readings, 0.0, 2.0)
    assert found.npu == (39.0, 41.0, None)
    assert "39 / 41 / ?" in utilization_lines([found])[1]
    assert found.lines[0] == ("core 0", [(1.5, 38.0), (2.0, 40.0)])
    assert found.lines[2] == ("core 2", [])


def test_processor_shares_are_ticks_over_the_phase() -> None:
    readings = [reading(0.0, (), 100, 100), reading(1.0, (), 110, 130), reading(2.0, (), 130, 160)]
    found = phase(readings, 0.0, 2.0)
    assert found.cpu[4] == pytest.approx(100 * 30 / 90)
    assert found.cpu[7] == pytest.approx(100 * 60 / 120)
    assert phase(readings[:1], 0.0, 2.0).cpu == {}


def test_one_core_that_carries_the_others_is_named() -> None:
    start = dict.fromkeys(range(4, 8), (0, 0))
    shares = {4: 14, 5: 20, 6: 20, 7: 56}
    readings = [Reading(0.0, (), start), Reading(2.0, (), {cpu: (b, 100 - b) for cpu, b in shares.items()})]
    found = phase(readings, 0.0, 2.0)
    assert found.hot_core == 7
    assert any("cpu7 is more than twice" in line for line in utilization_lines([found]))
    even = [Reading(0.0, (), start), Reading(2.0, (), {4: (36, 64), 5: (27, 73), 6: (27, 73), 7: (21, 79)})]
    assert phase(even, 0.0, 2.0).hot_core is None


def test_the_published_rows_stand_below_ours() -> None:
    text = "\n".join(utilization_lines([]))
    assert "38 / 40 / 41" in text and "66 / 64 / 64" in text and "published" in text


def test_the_recorder_reads_at_its_period_and_survives_a_board_that_goes_away() -> None:
    taken = 0

    def read() -> Reading:
        nonlocal taken
        taken += 1
        if taken > 2:
            raise OSError("gone")
        return reading(float(taken), (1, 2, 3))

    with Recorder(read, 0.01) as recorder:
        deadline = time.monotonic() + 5
        while taken < 4 and time.monotonic() < deadline:
            time.sleep(0.005)
    assert len(recorder.readings) == 2 and recorder.failures >= 2
