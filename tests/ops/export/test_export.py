"""Metrics: names, units, absent values, the file, the port, the dashboard."""

from __future__ import annotations

import json
import os
import re
import socket
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from orkbench_tui.errors import BusyError, DeniedError, NoDeviceError, UsageError
from orkbench_tui.ops.export.exposition import Exporter, serve, write_textfile
from orkbench_tui.ops.export.metrics import METRICS, SOURCES, metrics
from orkbench_tui.ops.telemetry.collector import Collector
from orkbench_tui.ops.telemetry.sample import Sample
from tests.ops.fake_board import FakeBoard, kmsg, publish, sample_text

DASHBOARD = Path(__file__).parents[3] / "docs" / "grafana" / "orkbench-boards.json"
DOC = Path(__file__).parents[3] / "docs" / "exporting.md"


def collector(board: FakeBoard, folder: Path) -> Collector:
    ticks: Iterator[float] = (float(n) for n in count())
    return Collector(board, folder, steady=lambda: next(ticks), wall=lambda: 1764460000.0)


def everything(tmp_path: Path) -> Sample:
    """A sample in which every metric has a value."""
    board = FakeBoard()
    board.files["/sys/kernel/debug/rknpu/mm"] = sample_text("npu-mm-512k-used.txt")
    board.files["/sys/kernel/debug/rknpu/hw_time"] = "core0: jobs 7 hw_ns 2500000000\n"
    board.log += kmsg(sample_text("dmesg-reset-storm.txt"), len(board.log))
    publish(tmp_path)
    taker = collector(board, tmp_path)
    taker.sample()
    board.files["/proc/stat"] = sample_text("proc-stat-rk3588-t1-150ms-40pct.txt")
    return taker.sample()


def values(text: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    return {
        (item.name, tuple(sorted(item.labels.items()))): item.value
        for family in text_string_to_metric_families(text)
        for item in family.samples
    }


def test_every_metric_of_the_table_can_have_a_value(tmp_path: Path) -> None:
    assert [series.metric.name for series in metrics(everything(tmp_path))] == list(METRICS)


def test_values_are_in_base_units(tmp_path: Path) -> None:
    sample = everything(tmp_path)
    found = values(Exporter(lambda: sample).text().decode())
    assert found["ork_npu_core_load_ratio", (("core", "0"),)] == 0.42
    assert found["ork_clock_hertz", (("clock", "npu"),)] == 1e9
    assert found["ork_temperature_celsius", (("zone", "npu"),)] == pytest.approx(48.076)
    assert found["ork_memory_total_bytes", ()] == 32507904 * 1024
    assert found["ork_npu_core_hw_seconds_total", (("core", "0"),)] == 2.5
    assert found["ork_npu_resets_total", (("cause", "timeout"),)] == 4
    assert found["ork_npu_resets_total", (("cause", "software"),)] == 0
    assert found["ork_boot_time_seconds", ()] == 1764454000.0
    assert found["ork_npu_core_interrupts_total", (("core", "0"),)] == 18240
    assert found["ork_cooling_capped", (("device", "2"), ("kind", "pwm-fan"))] == 0
    info = next(labels for name, labels in found if name == "ork_board_info")
    assert ("driver_version", "0.9.8") in info and ("kernel", "6.1.115-vendor-rk35xx") in info


@pytest.mark.parametrize("metric", METRICS.values(), ids=lambda metric: metric.name)
def test_names_follow_the_rules_of_the_ecosystem(metric: object) -> None:
    from orkbench_tui.ops.export.metrics import Metric

    assert isinstance(metric, Metric)
    assert re.fullmatch(r"ork_[a-z][a-z0-9_]*[a-z0-9]", metric.name)
    assert metric.name.endswith("_total") == (metric.kind == "counter")
    assert metric.help.endswith(".") and all(re.fullmatch(r"[a-z_]+", label) for label in metric.labels)
    assert not re.search(r"_(pct|percent|khz|mhz|ms|us|kib|mib|ghz|degrees)\b", metric.name)


def test_what_cannot_be_read_is_absent_and_said(tmp_path: Path) -> None:
    board = FakeBoard()
    board.denied |= {"/sys/kernel/debug/rknpu/load", "/dev/kmsg", "/sys/kernel/debug/dma_buf/bufinfo"}
    sample = collector(board, tmp_path).sample()
    found = values(Exporter(lambda: sample).text().decode())
    names = {name for name, _ in found}
    assert not names & {"ork_npu_core_load_ratio", "ork_npu_resets_total", "ork_dma_buf_bytes"}
    gone = {source for source in SOURCES if found["ork_source_available", (("source", source),)] == 0}
    assert gone == {"npu_load", "kernel_log", "dma_bufs", "sram", "npu_hw_time"}


def test_a_board_that_does_not_answer_is_down() -> None:
    def gone() -> Sample:
        raise NoDeviceError("the board does not answer")

    found = values(Exporter(gone).text().decode())
    assert found["ork_up", ()] == 0.0 and {name for name, _ in found} == {"ork_up", "ork_build_info"}


def test_foreign_text_stays_inside_its_label(tmp_path: Path) -> None:
    board = FakeBoard()
    board.files["/proc/device-tree/model"] = 'bad"} 1\nork_up 7\x1b[31m\\\0'
    sample = collector(board, tmp_path).sample()
    text = Exporter(lambda: sample).text().decode()
    assert values(text)["ork_up", ()] == 1.0 and "\x1b" not in text


def test_a_second_scrape_within_a_second_takes_no_sample(tmp_path: Path) -> None:
    sample, taken, now = everything(tmp_path), [], [10.0]

    def take() -> Sample:
        taken.append(now[0])
        return sample

    exporter = Exporter(take, steady=lambda: now[0])
    exporter.text()
    now[0] = 10.9
    exporter.text()
    now[0] = 11.0
    exporter.text()
    assert taken == [10.0, 11.0]


def test_the_textfile_is_replaced_at_once(tmp_path: Path) -> None:
    sample = everything(tmp_path / "occupancy")
    path = tmp_path / "ork.prom"
    path.write_text("old\n")
    with path.open() as reader:
        write_textfile(Exporter(lambda: sample), path)
        assert reader.read() == "old\n"
    assert values(path.read_text())["ork_up", ()] == 1.0
    assert [entry.name for entry in tmp_path.iterdir() if entry.is_file()] == ["ork.prom"]
    with pytest.raises(UsageError):
        write_textfile(Exporter(lambda: sample), tmp_path / "none" / "ork.prom")


@contextmanager
def no_root() -> Iterator[None]:
    """Root may write everywhere, so it is nobody for the block."""
    was = os.geteuid()
    os.seteuid(65534 if was == 0 else was)
    try:
        yield
    finally:
        os.seteuid(was)


def test_a_folder_that_may_not_be_written(tmp_path: Path) -> None:
    sample = everything(tmp_path)
    tmp_path.chmod(0o500)
    with no_root(), pytest.raises(DeniedError):
        write_textfile(Exporter(lambda: sample), tmp_path / "ork.prom")
    tmp_path.chmod(0o700)
    assert not (tmp_path / "ork.prom").exists()


def test_scrapes_over_http(tmp_path: Path) -> None:
    sample = everything(tmp_path)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    stop = serve(Exporter(lambda: sample), "127.0.0.1", port)
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            assert answer.headers["Content-Type"].startswith("text/plain")
            assert values(answer.read().decode())["ork_up", ()] == 1.0
        with pytest.raises(BusyError, match="is taken"):
            serve(Exporter(lambda: sample), "127.0.0.1", port)
    finally:
        stop()
    with pytest.raises(UsageError, match="cannot listen"):
        serve(Exporter(lambda: sample), "203.0.113.1", port)


def test_the_dashboard_asks_only_for_metrics_that_exist() -> None:
    dashboard = json.loads(DASHBOARD.read_text())
    asked = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    asked += [entry["definition"] for entry in dashboard["templating"]["list"] if "definition" in entry]
    names = {name for text in asked for name in re.findall(r"\bork_[a-z0-9_]+", text)}
    assert len(asked) > 20 and names <= set(METRICS)
    for text in asked:
        # Labels in selectors and groups are those of the metric, or what a scrape adds.
        labels = {
            label for part in re.findall(r"\{([^}]*)\}", text) for label in re.findall(r"(\w+)[=!]", part)
        }
        labels |= {label.strip() for part in re.findall(r"by \(([^)]*)\)", text) for label in part.split(",")}
        known = {label for name in re.findall(r"\bork_[a-z0-9_]+", text) for label in METRICS[name].labels}
        assert labels <= known | {"instance"}, text
        rated = re.findall(r"(?:rate|increase)\((ork_[a-z0-9_]+)", text)
        assert all(METRICS[name].kind == "counter" for name in rated), text
    places = [panel["gridPos"] for panel in dashboard["panels"]]
    cells = [
        (x, y)
        for place in places
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(cells) == len(set(cells)) and max(x for x, _ in cells) < 24


def test_every_metric_is_documented() -> None:
    text = DOC.read_text()
    assert [name for name in METRICS if f"`{name}`" not in text] == []
    documented = set(re.findall(r"`(ork_[a-z0-9_]+)`", text))
    assert documented <= set(METRICS)
