"""Trip points, cooling devices, power domains, shared buffers, on-chip memory, job times."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orkbench_tui.ops.kernel_log.rules import RULES, UNKNOWN_NPU
from orkbench_tui.ops.telemetry.alerts import Thresholds, Watcher
from orkbench_tui.ops.telemetry.collector import Collector
from orkbench_tui.ops.telemetry.dma_bufs import DmaBufs, parse_bufinfo
from orkbench_tui.ops.telemetry.headline import headline
from orkbench_tui.ops.telemetry.hw_time import CoreTime, busy_share, parse_hw_time
from orkbench_tui.ops.telemetry.power_domains import parse_power_domains
from orkbench_tui.ops.telemetry.report import status_lines
from orkbench_tui.ops.telemetry.sample_json import sample_document
from orkbench_tui.ops.telemetry.sram_map import SramMap, parse_mm
from orkbench_tui.ops.telemetry.table import csv_rows
from orkbench_tui.ops.telemetry.thermal import Trip
from orkbench_tui.sim.inprocess import InProcessBoard
from tests.ops.fake_board import FakeBoard, sample_text

TIME = "/sys/kernel/debug/rknpu/hw_time"
COOLING = "/sys/class/thermal/cooling_device"


def _collector(board: FakeBoard, folder: Path, step_s: float = 1.0) -> Collector:
    ticks: Iterator[float] = (n * step_s for n in count())
    return Collector(board, folder, steady=lambda: next(ticks), wall=lambda: 1764460000.0)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("npu-mm-512k-used.txt", SramMap(978944, 524288, 454656, 454656, True)),
        ("npu-mm-free.txt", SramMap(978944, 0, 978944, 978944, True)),
        ("npu-mm-full.txt", SramMap(978944, 978944, 0, 0, True)),
        ("npu-mm-no-sram.txt", None),
    ],
)
def test_maps_of_on_chip_memory(name: str, expected: SramMap | None) -> None:
    assert parse_mm(sample_text(name)) == expected


def test_job_times_give_the_exact_share() -> None:
    before = parse_hw_time("core0: jobs 10 hw_ns 1000000000\ncore1: jobs 0 hw_ns 0\ncore2: jobs 4 hw_ns 9\n")
    after = parse_hw_time("core0: jobs 12 hw_ns 1250000000\ncore1: jobs 0 hw_ns 0\ncore2: jobs 1 hw_ns 3\n")
    assert before is not None and after is not None and [item.core for item in after] == [0, 1, 2]
    assert busy_share(before[0], after[0], 0.5) == 50.0
    assert busy_share(before[1], after[1], 0.5) == 0.0
    # The driver was loaded again, or nothing was read before.
    assert busy_share(before[2], after[2], 0.5) is None and busy_share(None, after[0], 0.5) is None
    assert busy_share(before[0], CoreTime(0, 99, 10**12), 0.5) == 100.0


@pytest.mark.parametrize("text", ["", "core0: jobs x hw_ns 1\n", "NPU load:  Core0:  1%\n", "core0: jobs 1"])
def test_other_text_is_no_job_time(text: str) -> None:
    assert parse_hw_time(text) is None


def test_job_times_reach_samples(tmp_path: Path) -> None:
    board = FakeBoard()
    board.files[TIME] = "core0: jobs 7 hw_ns 500000000\ncore1: jobs 0 hw_ns 0\ncore2: jobs 0 hw_ns 0\n"
    taker = _collector(board, tmp_path, step_s=2.0)
    first = taker.sample()
    assert first.npu.cores[0].hw_jobs == 7 and first.npu.cores[0].hw_busy_pct is None
    board.files[TIME] = "core0: jobs 9 hw_ns 1000000000\ncore1: jobs 0 hw_ns 0\ncore2: jobs 0 hw_ns 0\n"
    second = taker.sample()
    assert [core.hw_busy_pct for core in second.npu.cores] == [25.0, 0.0, 0.0]
    assert second.reason("npu.hw_time") is None
    assert any("core 0 42 % (jobs 25.0 %)" in line for line in status_lines(second))


def test_trip_points_and_caps(tmp_path: Path) -> None:
    board = FakeBoard()
    sample = _collector(board, tmp_path).sample()
    soc = next(item for item in sample.temperatures if item.zone == "soc")
    assert soc.trips == (Trip("passive", 75.0), Trip("passive", 85.0), Trip("critical", 115.0))
    assert len(sample.cooling) == 3 and sample.caps == () and headline(sample).word == "OK"
    board.files[f"{COOLING}0/cur_state"] = "2\n"
    board.files[f"{COOLING}2/cur_state"] = "4\n"
    sample = _collector(board, tmp_path).sample()
    # The fan at full speed takes no speed away.
    assert [(device.kind, device.state, device.max_state) for device in sample.caps] == [
        ("thermal-cpufreq-0", 2, 6)
    ]
    assert headline(sample).reason == "speed is capped: thermal-cpufreq-0 at 2 of 6"


def test_a_trip_that_is_off_has_no_temperature(tmp_path: Path) -> None:
    board = FakeBoard()
    board.files["/sys/class/thermal/thermal_zone0/trip_point_0_temp"] = "-274000\n"
    soc = next(item for item in _collector(board, tmp_path).sample().temperatures if item.zone == "soc")
    assert [trip.celsius for trip in soc.trips] == [85.0, 115.0]


def test_power_domains_and_shared_buffers(tmp_path: Path) -> None:
    sample = _collector(FakeBoard(), tmp_path).sample()
    assert [(domain.name, domain.on) for domain in sample.power_domains] == [
        ("nputop", True),
        ("npu1", True),
        ("npu2", False),
    ]
    assert sample.dma_bufs == DmaBufs(1, 131072)
    assert parse_power_domains("Permission denied") is None and parse_bufinfo("Dma-buf Objects:\n") is None


def test_slow_sources_are_read_every_five_seconds(tmp_path: Path) -> None:
    board = FakeBoard()
    taker = _collector(board, tmp_path)
    assert taker.sample().dma_bufs == DmaBufs(1, 131072)
    board.files["/sys/kernel/debug/dma_buf/bufinfo"] = "Total 2 objects, 8192 bytes\n"
    seen = [taker.sample().dma_bufs for _ in range(5)]
    assert seen == [DmaBufs(1, 131072)] * 4 + [DmaBufs(2, 8192)]


def test_every_missing_reading_has_a_reason_and_a_remedy(tmp_path: Path) -> None:
    board = FakeBoard()
    board.denied |= {path for path in board.files if path.startswith("/sys/kernel/debug")} | {"/dev/kmsg"}
    sample = _collector(board, tmp_path).sample()
    missing = {gap.field: gap for gap in sample.unavailable}
    assert {"npu.load", "power_domains", "dma_bufs", "resets"} <= set(missing)
    assert missing["dma_bufs"].reason == "denied" and "sudo" in missing["dma_bufs"].remedy
    assert all(gap.remedy for gap in sample.unavailable)
    assert all(entry["remedy"] for entry in sample_document(sample)["unavailable"])
    bare = _collector(
        FakeBoard({"/proc/stat": "", "/proc/meminfo": "", "/proc/uptime": ""}), tmp_path
    ).sample()
    assert {"cooling", "temperatures", "sram", "memory"} <= {gap.field for gap in bare.unavailable}
    assert all(gap.remedy for gap in bare.unavailable)


def test_the_simulated_board_has_them(tmp_path: Path) -> None:
    board = InProcessBoard()
    try:
        sample = Collector(board.files(), tmp_path).sample()
    finally:
        board.close()
    assert sample.cooling and sample.power_domains and sample.dma_bufs is not None
    assert any(item.trips for item in sample.temperatures)


def test_memory_pressure_as_rows(tmp_path: Path) -> None:
    board = FakeBoard()
    taker = _collector(board, tmp_path, step_s=5.0)
    seen = [taker.sample()]
    board.files["/proc/meminfo"] = (
        "MemTotal: 1000 kB\nCmaTotal: 100 kB\nCmaFree: 4 kB\nSwapTotal: 50 kB\nSwapFree: 20 kB\n"
    )
    board.files["/sys/kernel/debug/dma_buf/bufinfo"] = "Total 3 objects, 12288 bytes\n"
    seen.append(taker.sample())
    board.denied |= {"/sys/kernel/debug/dma_buf/bufinfo", "/proc/meminfo"}
    seen.append(taker.sample())
    first, importing, unknown = csv.DictReader(csv_rows(seen))
    assert (first["cma_free_bytes"], first["dma_buf_bytes"]) == (str(3120 * 1024), "131072")
    assert (importing["cma_free_bytes"], importing["swap_used_bytes"]) == (str(4 * 1024), str(30 * 1024))
    assert (importing["dma_buf_objects"], importing["dma_buf_bytes"]) == ("3", "12288")
    assert {unknown[name] for name in ("cma_free_bytes", "swap_used_bytes", "dma_buf_bytes")} == {""}


def test_a_program_in_state_d_is_timed_while_nothing_completes(tmp_path: Path) -> None:
    board = FakeBoard()
    taker = _collector(board, tmp_path, step_s=10.0)
    rules = Watcher(Thresholds(hung_s=30.0))

    def look(state: str) -> tuple[float, list[str]]:
        board.files["/proc/3120/status"] = f"Name:\tllama-cli\nState:\t{state}\nVmRSS:\t 100 kB\n"
        sample = taker.sample()
        (holder,) = sample.holders
        assert holder.state == state[0]
        return holder.hung_s, [event.text for event in rules.take(sample) if event.alert == "npu.hung"]

    assert look("S (sleeping)") == (0.0, [])
    assert [look("D (disk sleep)")[0] for _ in range(3)] == [0.0, 10.0, 20.0]
    # A completion in between: it waits for jobs that do end.
    board.files["/proc/interrupts"] = board.files["/proc/interrupts"].replace("18240", "18241")
    assert [look("D (disk sleep)") for _ in range(3)] == [(0.0, []), (10.0, []), (20.0, [])]
    seconds, texts = look("D (disk sleep)")
    assert seconds == 30.0 and texts == ["llama-cli (3120) hangs in the kernel for 30 s; no signal ends it"]
    assert look("S (sleeping)") == (0.0, ["npu.hung is over"])


@given(st.text(max_size=200))
def test_parsers_take_any_text(text: str) -> None:
    parse_mm(text)
    parse_hw_time(text)
    parse_bufinfo(text)
    assert parse_power_domains("domain\n" + text) is not None


def test_every_rule_says_who_prints_it() -> None:
    assert [rule.id for rule in (*RULES, UNKNOWN_NPU) if not rule.source] == []
    by_id = {rule.id: rule.source for rule in RULES}
    assert by_id["npu.iommu.switch_timeout"] == "rknpu_iommu.c"
    assert by_id["npu.iommu.fault.detail"] == "rockchip-iommu.c"
