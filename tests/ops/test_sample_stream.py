"""Samples written as lines and read back."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orkbench_tui.ops.telemetry.collector import Collector
from orkbench_tui.ops.telemetry.report import status_lines
from orkbench_tui.ops.telemetry.sample import Sample
from orkbench_tui.ops.telemetry.sample_decode import sample_from
from orkbench_tui.ops.telemetry.sample_json import sample_document
from orkbench_tui.ops.telemetry.sample_stream import LogFollower, parse_line, stream_line
from tests.ops.fake_board import FakeBoard, kmsg, publish, sample_text

MM, TIME = "/sys/kernel/debug/rknpu/mm", "/sys/kernel/debug/rknpu/hw_time"


def taken(board: FakeBoard, folder: Path, many: int = 2) -> list[tuple[Sample, bytes]]:
    ticks: Iterator[float] = (float(n) for n in count())
    walls: Iterator[float] = (1764460000.0 + n for n in count())
    taker = Collector(board, folder, steady=lambda: next(ticks), wall=lambda: next(walls))
    found = []
    for _ in range(many):
        sample = taker.sample()
        found.append((sample, stream_line(sample, taker.new_records)))
    return found


def test_a_line_gives_the_sample_back(tmp_path: Path) -> None:
    board = FakeBoard()
    board.files[MM] = sample_text("npu-mm-512k-used.txt")
    board.files[TIME] = "core0: jobs 7 hw_ns 5\n"
    board.log += kmsg(sample_text("dmesg-reset-storm.txt"), len(board.log))
    board.denied.add("/sys/kernel/debug/rknpu/power")
    publish(tmp_path)
    follower = LogFollower()
    for sample, line in taken(board, tmp_path):
        again = follower.sample(parse_line(line))
        assert sample_document(again) == sample_document(sample)
        assert again.log == sample.log and again.log.facts.resets == 4
        assert status_lines(again) == status_lines(sample)
        # Rates are rounded in documents; all else is the same value.
        rough = {"npu", "cpu", "resets", "mono_s", "unix_s"}
        for field in dataclasses.fields(Sample):
            if field.name not in rough:
                assert getattr(again, field.name) == getattr(sample, field.name), field.name


def test_records_of_the_log_are_sent_once(tmp_path: Path) -> None:
    board = FakeBoard()
    (_, first), (_, second) = taken(board, tmp_path)
    assert len(json.loads(first)["data"]["records"]) == len(board.log)
    assert "records" not in json.loads(second)["data"]


def test_another_boot_begins_another_log(tmp_path: Path) -> None:
    board = FakeBoard()
    board.log += kmsg(sample_text("dmesg-reset-storm.txt"), len(board.log))
    follower = LogFollower()
    (_, line), *_ = taken(board, tmp_path)
    assert follower.sample(parse_line(line)).log.facts.resets == 4
    board.files["/proc/sys/kernel/random/boot_id"] = "another\n"
    board.log = kmsg(sample_text("dmesg-healthy-boot.txt"))
    (_, line), *_ = taken(board, tmp_path)
    assert follower.sample(parse_line(line)).log.facts.resets == 0


def test_a_document_of_another_version_leaves_unknown_what_it_does_not_say() -> None:
    sample = sample_from({"unix_s": 5.0, "npu": {}, "later": [1]}, source="board")
    assert sample.npu.cores == () and sample.memory is None and sample.resets is None
    assert sample.uptime_s is None and sample.cooling == ()


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"unix_s": "now", "npu": {}},
        {"unix_s": 1.0, "npu": {"cores": [{"core": -1}]}},
        {"unix_s": 1.0, "npu": {"cores": {"core": 1}}},
        {"unix_s": 1.0, "npu": {}, "memory": {"total_bytes": "4"}},
        {"unix_s": 1.0, "npu": {}, "temperatures": [{"zone": "npu", "temperature_c": None}]},
        {"unix_s": 1e300, "npu": {}},
    ],
)
def test_a_wrong_document_is_an_error(data: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r".+"):
        sample_from(data, source="board")


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


_PLACES = (
    "unix_s", "mono_s", "uptime_s", "board", "source_detail", "npu", "cpu", "blocked_tasks", "memory", "ddr",
    "temperatures", "cooling", "power_domains", "dma_bufs", "sram", "resets", "occupancy", "holders", "unavailable",
    "records",
)  # fmt: skip


@given(st.sampled_from(_PLACES), _JSON)
def test_any_value_in_any_place_is_a_sample_or_a_value_error(name: str, value: Any) -> None:
    document = {"unix_s": 1.0, "npu": {"cores": []}, name: value}
    try:
        LogFollower().sample({"data": document, "source": "board"})
    except ValueError:
        return


@pytest.mark.parametrize(
    "line", [b"", b"\xff", b"{}", b"[1]", b'{"data": 3}', b'{"data":{}', b"[" * 100000], ids=range(7)
)
def test_other_lines_are_value_errors(line: bytes) -> None:
    with pytest.raises(ValueError, match=r".*"):
        parse_line(line)
