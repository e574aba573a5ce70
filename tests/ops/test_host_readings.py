"""Processor, memory, clocks, temperatures, interrupts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orkbench_tui.ops.telemetry.cpu import busy_percent, core_types, parse_proc_stat
from orkbench_tui.ops.telemetry.frequency import (
    parse_cpu_list,
    parse_devfreq_load,
    parse_frequency_list,
    parse_hz,
    parse_khz,
)
from orkbench_tui.ops.telemetry.interrupts import parse_npu_interrupts
from orkbench_tui.ops.telemetry.memory import parse_meminfo
from orkbench_tui.ops.telemetry.thermal import parse_millicelsius, zone_name
from tests.ops.fake_board import sample_text


def test_busy_percent_between_two_readings() -> None:
    before = parse_proc_stat(sample_text("proc-stat-rk3588-t0.txt"))
    after = parse_proc_stat(sample_text("proc-stat-rk3588-t1-150ms-40pct.txt"))
    busy = busy_percent(before, after)
    # A little core: 3 busy ticks, 10 idle, 2 waiting for a disk, which is idle time.
    assert busy[0] == pytest.approx(20.0)
    assert busy[4] == pytest.approx(40.0)
    assert sorted(busy) == list(range(8))
    assert after.blocked == 1 and after.boot_unix_s == 1764452000


def test_fully_busy_cores() -> None:
    before = parse_proc_stat(sample_text("proc-stat-rk3588-t0.txt"))
    busy = busy_percent(before, parse_proc_stat(sample_text("proc-stat-rk3588-t1-150ms-a76-full.txt")))
    assert [busy[cpu] for cpu in (4, 5, 6, 7)] == [100.0] * 4


def test_a_core_without_progress_or_with_counters_gone_back_has_no_figure() -> None:
    before = parse_proc_stat("cpu0 10 0 0 10\ncpu1 10 0 0 10\ncpu2 1 0 0 1\n")
    after = parse_proc_stat("cpu0 10 0 0 10\ncpu1 5 0 0 20\ncpu3 1 0 0 1\n")
    assert busy_percent(before, after) == {}


def test_blocked_processes() -> None:
    assert parse_proc_stat(sample_text("proc-stat-blocked-dstate.txt")).blocked == 3
    assert parse_proc_stat("").blocked is None


def test_core_names_come_from_part_numbers() -> None:
    text = "processor : 0\nCPU part : 0xd05\n\nprocessor : 4\nCPU part : 0xd0b\n\nprocessor : 5\nCPU part : 0xfff\n"
    assert core_types(text) == {0: "A55", 4: "A76"}


def test_meminfo_of_a_board_full_of_page_cache() -> None:
    memory = parse_meminfo(sample_text("meminfo-rk3588-32g-page-cache-full.txt"))
    assert memory.total_bytes == 32507904 * 1024
    assert memory.cma_total_bytes == 256 << 20 and memory.cma_free_bytes == 3120 * 1024
    # Page cache is not used memory.
    assert memory.used_bytes == (32507904 - 29811204) * 1024


def test_missing_lines_are_unknown_not_zero() -> None:
    memory = parse_meminfo("MemTotal: 100 kB\n")
    assert memory.cma_total_bytes is None and memory.used_bytes is None


def test_frequencies() -> None:
    assert parse_hz(sample_text("npu-freq-1000mhz.txt")) == 1_000_000_000
    assert parse_hz("undefined\n") is None
    assert parse_khz("1800000\n") == 1_800_000_000
    assert parse_devfreq_load("14@2112000000Hz\n") == (14, 2_112_000_000)
    assert parse_devfreq_load("14") is None
    assert parse_frequency_list("300000000 1000000000 \n") == (300_000_000, 1_000_000_000)


def test_cpu_lists() -> None:
    assert parse_cpu_list("0 1 2 3\n") == (0, 1, 2, 3)
    assert parse_cpu_list("0-2,6") == (0, 1, 2, 6)
    assert parse_cpu_list("x 5-") == ()


def test_temperatures() -> None:
    assert parse_millicelsius("43461\n") == pytest.approx(43.461)
    assert parse_millicelsius("-5000") == pytest.approx(-5)
    assert parse_millicelsius("2147483\n") is None
    assert parse_millicelsius("n/a") is None
    assert zone_name("npu-thermal\n") == "npu" and zone_name("package") == "package"


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("proc-interrupts-rk3588.txt", [18240, 18211, 18202]),
        ("proc-interrupts-rk3576.txt", [3310, 3290]),
        ("proc-interrupts-rk3566.txt", [771]),
        ("proc-interrupts-rocket.txt", [210, 208, 0]),
    ],
)
def test_interrupts_by_core(name: str, counts: list[int]) -> None:
    assert [line.count for line in parse_npu_interrupts(sample_text(name))] == counts


@given(st.text())
def test_no_parser_raises(text: str) -> None:
    parse_proc_stat(text)
    parse_meminfo(text)
    parse_npu_interrupts(text)
    core_types(text)
    parse_cpu_list(text)
    parse_frequency_list(text)
    for parse in (parse_hz, parse_khz, parse_devfreq_load, parse_millicelsius):
        parse(text)


@given(st.from_regex(r"cpu[0-9]{1,2}( [0-9]{1,20}){0,12}\n", fullmatch=True), st.text(max_size=30))
def test_damaged_stat_lines(text: str, more: str) -> None:
    reading = parse_proc_stat(text + more)
    assert all(0 <= value <= 100 for value in busy_percent(reading, parse_proc_stat(text)).values())
