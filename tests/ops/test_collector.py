"""Samples from whole boards: rates, gaps, reboots."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from orkbench_tui.errors import NoDeviceError
from orkbench_tui.ops.files import Access, HostFiles, Reading
from orkbench_tui.ops.telemetry.collector import Collector
from orkbench_tui.ops.telemetry.headline import headline
from orkbench_tui.ops.telemetry.history import History
from orkbench_tui.ops.telemetry.report import (
    STATUS_COLUMNS,
    STATUS_LINES,
    status_lines,
    watch_head,
    watch_line,
    watch_source,
)
from orkbench_tui.ops.telemetry.sample import Sample
from orkbench_tui.ops.telemetry.sample_json import sample_document
from orkbench_tui.sim.inprocess import InProcessBoard
from tests.ops.fake_board import SAMPLES, FakeBoard, kmsg, publish, sample_text

LOAD = "/sys/kernel/debug/rknpu/load"


def collector(board: FakeBoard, folder: Path, step_s: float = 1.0) -> Collector:
    ticks: Iterator[float] = (n * step_s for n in count())
    return Collector(board, folder, steady=lambda: next(ticks), wall=lambda: 1764460000.0)


def two(board: FakeBoard, folder: Path, name: str = "proc-stat-rk3588-t1-150ms-40pct.txt") -> Sample:
    taker = collector(board, folder)
    taker.sample()
    board.files["/proc/stat"] = sample_text(name)
    return taker.sample()


def test_a_healthy_board(tmp_path: Path) -> None:
    sample = two(FakeBoard(), tmp_path)
    assert [core.load_pct for core in sample.npu.cores] == [42, 7, 100]
    assert [(group.name, len(group.cores)) for group in sample.cpu] == [("A55", 4), ("A76", 4)]
    assert [clock.hz for clock in sample.cpu[1].clocks] == [2_256_000_000, 2_304_000_000]
    assert sample.cpu[1].cores[3].clock_hz == 2_304_000_000
    assert sample.ddr is not None and (sample.ddr.hz, sample.ddr.load_pct) == (2_112_000_000, 14)
    assert sample.temperature("npu") == pytest.approx(48.076)
    assert sample.resets is not None and (sample.resets.value, sample.resets.lower_bound) == (0, False)
    assert [(h.pid, h.command, h.node) for h in sample.holders] == [
        (3120, "llama-cli", "/dev/dri/renderD129")
    ]
    # What only patched kernels have.
    assert {gap.field for gap in sample.unavailable} == {"npu.hw_time", "sram"} and sample.warnings == ()
    assert headline(sample).word == "OK"


def test_first_sample_says_that_rates_are_pending(tmp_path: Path) -> None:
    sample = collector(FakeBoard(), tmp_path).sample()
    assert all(core.busy_pct is None for core in sample.cores)
    gap = sample.reason("cpu.busy_pct")
    assert gap is not None and gap.reason == "pending"


def test_denied_load_is_never_zero(tmp_path: Path) -> None:
    board = FakeBoard()
    board.denied |= {LOAD, "/sys/kernel/debug/rknpu/power"}
    sample = two(board, tmp_path)
    assert [core.load_pct for core in sample.npu.cores] == [None, None, None]
    gap = sample.reason("npu.load")
    assert gap is not None and (gap.reason, gap.errno, gap.path) == ("denied", "EACCES", LOAD)
    assert headline(sample).word == "WARN"


def test_the_world_readable_node_is_used_when_debugfs_is_closed(tmp_path: Path) -> None:
    board = FakeBoard()
    board.denied.add(LOAD)
    board.files["/proc/rknpu/load"] = sample_text("npu-load-rk3576-busy.txt")
    assert [core.load_pct for core in two(board, tmp_path).npu.cores] == [63, 58]


def test_underflow_and_clamping_are_flagged(tmp_path: Path) -> None:
    board = FakeBoard()
    board.files[LOAD] = sample_text("npu-load-rk3588-old-unclamped.txt")
    sample = two(board, tmp_path)
    assert [core.load_pct for core in sample.npu.cores] == [0, 100, None]
    assert sample.reason("npu.cores[2].load_pct") is not None
    assert len(sample.warnings) == 2 and "429496" in sample.warnings[1]


def test_interrupt_and_submit_rates(tmp_path: Path) -> None:
    board = FakeBoard()
    taker = collector(board, tmp_path, step_s=2.0)
    publish(tmp_path, submits=100)
    first = taker.sample()
    assert first.npu.cores[0].irq_per_s is None and first.occupancy.submits_per_s == {}
    board.files["/proc/interrupts"] = board.files["/proc/interrupts"].replace("18240", "18440")
    path = publish(tmp_path, submits=150)
    second = taker.sample()
    assert second.npu.cores[0].irq_per_s == pytest.approx(100.0)
    assert second.occupancy.submits_per_s[int(path.stem)] == pytest.approx(25.0)


def test_resets_come_from_the_log_and_grow(tmp_path: Path) -> None:
    board = FakeBoard()
    taker = collector(board, tmp_path)
    taker.sample()
    board.log += kmsg(sample_text("dmesg-reset-storm.txt"), len(board.log))
    sample = taker.sample()
    assert sample.resets is not None
    assert (sample.resets.value, sample.resets.forced, sample.resets.lower_bound) == (4, 4, False)
    # Booted 6000 s before the sample; the last reset was 439.7 s after boot.
    assert sample.resets.last_unix_s == pytest.approx(1764460000 - 6000 + 439.749601)
    assert taker.sample().resets == sample.resets


def test_a_log_that_no_longer_reaches_back_to_boot_gives_a_lower_bound(tmp_path: Path) -> None:
    board = FakeBoard()
    board.log = kmsg(sample_text("dmesg-wrap-gap.txt"), 48211)
    sample = two(board, tmp_path)
    assert sample.resets is not None and (sample.resets.value, sample.resets.lower_bound) == (1, True)


def test_denied_log(tmp_path: Path) -> None:
    board = FakeBoard()
    board.denied.add("/dev/kmsg")
    sample = two(board, tmp_path)
    gap = sample.reason("resets")
    assert sample.resets is None and gap is not None and gap.reason == "denied"


def test_a_reboot_starts_all_counts_again(tmp_path: Path) -> None:
    board = FakeBoard()
    board.log += kmsg(sample_text("dmesg-reset-storm.txt"), len(board.log))
    taker = collector(board, tmp_path)
    assert (resets := taker.sample().resets) is not None and resets.value == 4
    board.files["/proc/sys/kernel/random/boot_id"] = "another\n"
    board.log = kmsg(sample_text("dmesg-healthy-boot.txt"))
    sample = taker.sample()
    assert sample.resets is not None and sample.resets.value == 0
    assert sample.identity.boot_id == "another"


def test_files_that_do_not_answer(tmp_path: Path) -> None:
    class Broken(FakeBoard):
        def read_many(self, paths: list[str]) -> list[Reading]:
            return [Reading(path, Access.FAILED, errno_name="EPIPE") for path in paths]

    with pytest.raises(NoDeviceError, match="EPIPE"):
        collector(Broken(), tmp_path).sample()


def test_a_connection_that_breaks(tmp_path: Path) -> None:
    board = FakeBoard()
    taker = collector(board, tmp_path)
    taker.sample()
    board.gone = True
    with pytest.raises(NoDeviceError, match="went away"):
        taker.sample()


def test_a_machine_without_npu(tmp_path: Path) -> None:
    board = FakeBoard({"/proc/stat": "cpu0 1 0 0 1\ncpu1 1 0 0 1\n", "/proc/uptime": "50.0 1.0\n"})
    board.denied.add("/dev/kmsg")
    sample = collector(board, tmp_path).sample()
    assert sample.npu.cores == () and sample.memory is None and sample.ddr is None
    assert [group.name for group in sample.cpu] == ["CPU"]
    assert headline(sample).word == "NO NPU"
    fields = {gap.field for gap in sample.unavailable}
    assert {"npu.load", "npu.clock.hz", "memory", "ddr.hz", "temperatures", "cpu.clock_hz"} <= fields


def test_one_batch_per_sample(tmp_path: Path) -> None:
    board = FakeBoard()
    taker = collector(board, tmp_path, step_s=0.1)
    taker.sample()
    before = board.batches
    taker.sample()
    assert board.batches == before + 1


def test_the_simulated_board_answers_every_field(tmp_path: Path) -> None:
    board = InProcessBoard()
    try:
        taker = Collector(board.files(), tmp_path)
        taker.sample()
        sample = taker.sample()
    finally:
        board.close()
    assert sample.source == "sim" and len(sample.npu.cores) == 3
    assert {gap.field for gap in sample.unavailable if gap.reason != "pending"} == {"npu.hw_time", "sram"}
    assert sample.log.facts.unknown_npu == 0


def test_document_is_json_with_null_for_unknown(tmp_path: Path) -> None:
    board = FakeBoard()
    board.denied.add(LOAD)
    publish(tmp_path)
    document = sample_document(two(board, tmp_path))
    assert json.loads(json.dumps(document, allow_nan=False)) == document
    assert [core["load_pct"] for core in document["npu"]["cores"]] == [None, None, None]
    assert document["unavailable"][0]["field"] == "npu.load"
    assert document["resets"]["from"] == "kernel-log"


@pytest.mark.parametrize("storm", [False, True])
def test_status_page_fits_a_terminal(tmp_path: Path, storm: bool) -> None:
    board = FakeBoard()
    if storm:
        board.denied |= {LOAD, "/proc/meminfo"}
        board.log += kmsg(sample_text("dmesg-reset-storm.txt"), len(board.log))
        board.files["/proc/uptime"] = "500.0 1.0\n"
        board.links |= {f"/proc/{pid}/fd/3": "/dev/dri/renderD129" for pid in range(4000, 4010)}
    publish(tmp_path)
    sample = two(board, tmp_path)
    lines = status_lines(sample)
    assert len(lines) <= STATUS_LINES and max(map(len, lines)) <= STATUS_COLUMNS
    text = "\n".join(lines)
    assert ("ERROR: an NPU job timed out" in text) == storm
    assert ("denied" in text) == storm
    assert max(len(watch_head(sample)), len(watch_line(sample))) <= STATUS_COLUMNS
    for columns in (40, 60, 120):
        assert max(map(len, status_lines(sample, columns))) <= columns


def test_a_simulated_board_is_named_with_its_pace(tmp_path: Path) -> None:
    board = FakeBoard(label="sim")
    board.detail = "fast"  # type: ignore[attr-defined]
    sample = two(board, tmp_path)
    assert (sample.source, sample.source_detail) == ("sim", "fast")
    assert watch_source(sample) == "source: the simulated board, pace fast"
    assert "the simulated board, pace fast" in "\n".join(status_lines(sample))
    document = sample_document(sample)
    assert document["source_detail"] == "fast"
    assert "measured" not in document["occupancy"]["provenance"]


def test_a_real_board_has_no_source_line(tmp_path: Path) -> None:
    sample = two(FakeBoard(), tmp_path)
    assert watch_source(sample) == sample.source_detail == ""


def test_history_keeps_gaps(tmp_path: Path) -> None:
    board, history = FakeBoard(), History(capacity=3)
    taker = collector(board, tmp_path)
    for load in ("NPU load: 10%\n", "NPU load: 20%\n", "broken", "NPU load: 40%\n"):
        board.files[LOAD] = load
        history.add(taker.sample())
    assert history.npu_load(0, 10) == [20, None, 40]
    assert history.npu_load(0, 2) == [None, 40]
    assert history.npu_load(5, 1) == [None]


def test_a_recorded_kmsg_file_is_read_record_by_record(tmp_path: Path) -> None:
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/kmsg").write_bytes((SAMPLES / "kmsg-raw.txt").read_bytes())
    files = HostFiles(str(tmp_path))
    records = files.kernel_log(605)
    assert records[0].startswith(b"6,606,") and b"SUBSYSTEM=platform" in records[0]
    assert files.kernel_log(1347) == []


def test_a_reset_that_software_asked_for_is_counted_and_is_no_trouble(tmp_path: Path) -> None:
    board = FakeBoard()
    board.log += kmsg("[ 5990.000000] RKNPU: soft reset, num: 6\n", len(board.log))
    sample = two(board, tmp_path)
    assert sample.resets is not None and (sample.resets.value, sample.resets.forced) == (1, 0)
    assert headline(sample).word == "OK"
    assert any("1 in the kernel log" in line and "software" in line for line in status_lines(sample))
