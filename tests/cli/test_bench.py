"""``ork run bench`` with a tiny model on the simulated board."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from orkbench_tui import locations
from orkbench_tui.cli import bench_run
from orkbench_tui.cli.bench_board import BoardWatch, refuse_unfit
from orkbench_tui.cli.main import run
from orkbench_tui.errors import RefusedError
from orkbench_tui.runner.bench.cases import cases_of
from orkbench_tui.runner.bench.change_record import parse_change
from orkbench_tui.runner.bench.record import row_document
from orkbench_tui.settings import Settings
from tests.conftest import ork
from tests.reference.tiny_models import write_tiny_llama
from tests.runner.bench.fakes import FACTS, row


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    return write_tiny_llama(tmp_path / "tiny.gguf", quant="Q8_0")


def test_the_whole_report_by_one_command(tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    html = tmp_path / "r.html"
    words = ("-m", str(tiny), "-p", "16,32", "-n", "4", "-r", "2", "--against", "published", "--json")
    done = ork("run", "bench", *words, "--html", str(html))
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["source"] == "sim"
    rows = document["data"]["rows"]
    assert [r["test"] for r in rows] == ["pp16", "pp32", "tg4"]
    for found in rows:
        assert found["label"] == "host" and found["npu_label"] == "predicted"
        assert len(found["samples_ts"]) == 2 and found["avg_ts"] > 0 and found["stddev_ts"] >= 0
        assert found["comparable"] is False
        assert any("simulated board" in reason for reason in found["reasons"])
        model, state = found["model"], found["state"]
        assert len(model["sha256"]) == 64 and len(model["pack_sha256"]) == 64
        assert model["weights"] == model["expected"]
        assert (model["path"] == "npu") == (model["weights"] > 0) == (model["resident_bytes"] > 0)
        assert (found["submits"] > 0) == (model["weights"] > 0 and found["n_prompt"] > 0)
        assert model["load_s"] > 0 and found["kernels"] and found["warm"] is True
        assert state["governors"] and state["clocks_hz"]["npu"] and state["temperatures_c"]
    assert {r["published"] for r in document["data"]["against"]} >= {45.3, 178, 72.1}
    page = html.read_text(encoding="utf-8")
    assert all(word in page for word in ("host", "predicted", "published", "not comparable"))
    kept = (locations.state_dir() / "bench" / "results.jsonl").read_text(encoding="utf-8").splitlines()
    assert len(kept) == 3
    again = ork("run", "bench", "history")
    assert again.returncode == 0 and "tiny w8a8-rot pp16 host" in again.stdout


def test_utilization_of_every_core(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = ork(
        "run", "bench", "-m", str(tiny), "-p", "32", "-r", "1", "--utilization", "--no-keep", timeout=60
    )
    assert done.returncode == 0, done.stderr
    line = next(text for text in done.stdout.splitlines() if text.startswith("tiny pp32"))
    assert "NPU predicted, t/s and CPU host" in line and line.count("/") >= 2
    assert "closed runtime, 7B" in done.stdout
    assert "NPU load % (predicted)" in done.stdout
    assert any(note.startswith("pp32: ") and note.endswith("t/s (host)") for note in done.stderr.splitlines())
    assert not (locations.state_dir() / "bench").exists()


def test_float_figures_need_no_board_and_say_so(tiny: Path) -> None:
    done = ork(
        "run", "bench", "-m", str(tiny), "-p", "8", "-r", "1", "--quant", "f32", "-o", "jsonl", "--no-keep"
    )
    found = json.loads(done.stdout)
    assert (found["state"], found["npu_ns"], found["model"]["path"]) == (None, None, "cpu")
    assert "no NPU takes part" in found["reasons"][0]
    assert not (locations.runtime_dir() / "sim").exists()


def test_rows_are_shown_where_they_cannot_be_kept(tiny: Path) -> None:
    words = (
        "-m",
        str(tiny),
        "-p",
        "8",
        "-r",
        "1",
        "--quant",
        "f32",
    )
    locations.state_dir().parent.mkdir(parents=True, exist_ok=True)
    locations.state_dir().write_text("in the way", encoding="utf-8")
    done = ork("run", "bench", *words)
    assert done.returncode == 0
    assert "| tiny" in done.stdout
    assert "results are not kept" in done.stderr and "cannot use" in done.stderr


@pytest.mark.parametrize("way", [("--quant", "f32"), ("--predict",)])
def test_a_report_without_a_place_is_refused_before_anything_is_measured(
    tiny: Path, tmp_path: Path, way: tuple[str, ...]
) -> None:
    absent = tmp_path / "absent" / "r.html"
    done = ork("run", "bench", "-m", str(tiny), "-p", "8", "-r", "1", *way, "--html", str(absent))
    assert done.returncode == 2 and not done.stdout
    assert f"no folder {absent.parent}" in done.stderr.splitlines()[-1]


def test_ctrl_c_keeps_what_was_measured(tiny: Path) -> None:
    words = [
        sys.executable,
        "-m",
        "orkbench_tui.cli.main",
        "run",
        "bench",
        "-m",
        str(tiny),
        "-p",
        "16",
        "-r",
        "1000",
    ]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("pp16:"):
            break
    os.kill(process.pid, signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "partial" in out and "not comparable: interrupted after" in out


def test_predictions_open_nothing(tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        run(["run", "bench", "--predict", "-m", "qwen2.5-7b", "-m", str(tiny), "-p", "512", "-n", "8"]) == 0
    )
    text = capsys.readouterr().out
    assert "predicted for the published serial path" in text
    assert "pp512" in text and "| predicted |" in text
    assert not (locations.runtime_dir() / "sim").exists()
    assert run(["run", "bench", "--predict", "--table"]) == 0
    assert "RES-41 doorbell 1x512x512" in capsys.readouterr().out
    assert (
        run(["run", "bench", "--predict", "-m", "qwen3-1.7b", "-p", "64", "--chip", "rk3576", "-o", "json"])
        == 0
    )
    assert json.loads(capsys.readouterr().out)[0]["label"] == "predicted"


def test_arms_are_measured_in_turns_and_judged(tiny: Path) -> None:
    words = (
        "run",
        "bench",
        "compare",
        "w8a8",
        "f32",
        "-m",
        str(tiny),
        "-p",
        "16",
        "-n",
        "4",
        "-r",
        "3",
        "--json",
    )
    done = ork(*words)
    assert done.returncode == 0, done.stderr
    data = json.loads(done.stdout)["data"]
    assert [v["test"] for v in data["verdicts"]] == ["pp16", "tg4"]
    for verdict in data["verdicts"]:
        assert len(verdict["first"]) == 3 == verdict["comparison"]["pairs"]
        assert verdict["comparison"]["verdict"] in ("faster", "slower", "noise")
    assert [r["arm"] for r in data["rows"]].count("f32") == 6
    assert [change["test"] for change in data["changes"]] == ["pp16", "tg4"]
    assert all(parse_change(change).reached for change in data["changes"])


def test_two_pairs_are_not_enough(tiny: Path) -> None:
    words = ("compare", "threads=1", "threads=2", "-m", str(tiny), "-p", "8", "-r", "2", "--quant")
    done = ork("run", "bench", *words[:-1], "--json")
    verdicts = json.loads(done.stdout)["data"]["verdicts"]
    assert [v["comparison"]["verdict"] for v in verdicts] == ["insufficient"]


def test_files_of_results_are_never_a_verdict(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = tmp_path / "a.jsonl", tmp_path / "b.json"
    first.write_text(json.dumps(row_document(row([100, 101, 99]))), encoding="utf-8")
    second.write_text(json.dumps([row_document(row([150, 151, 149], commit="c2"))]), encoding="utf-8")
    assert run(["run", "bench", "compare", str(first), str(second)]) == 0
    assert "insufficient (measured with 2 different builds)" in capsys.readouterr().out
    other = json.dumps({**row_document(row()), "schema": "ork.bench.row/9"})
    second.write_text(other, encoding="utf-8")
    assert run(["run", "bench", "compare", str(first), str(second)]) == 1
    assert "ork.bench.row/9" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        ("-p", "x"),
        ("-p", "0", "-n", "0"),
        ("-pg", "5"),
        ("-o", "xml"),
        ("-r", "0"),
        ("-ub", "512"),
        ("-t", "999"),
        ("--chip", "rk9999", "--predict"),
        ("--against", "nobody"),
        ("--period", "1"),
        ("--table",),
        ("compare", "colour=red", "w8a8"),
        ("compare", "", "w8a8"),
        ("compare", "threads=x", "w8a8"),
    ],
)
def test_bad_words_are_one_line(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["run", "bench", *words]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_an_unfit_board_is_not_timed_unless_told() -> None:
    watch = BoardWatch(None, None, failed=("npu.clock", "heat"), preflight=True)  # type: ignore[arg-type]
    with pytest.raises(RefusedError, match=r"npu.clock, heat.*--unfit"):
        refuse_unfit(watch, anyway=False)
    refuse_unfit(watch, anyway=True)
    refuse_unfit(replace_failed(watch), anyway=False)


def test_the_command_refuses_an_unfit_board(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Unfit(BoardWatch):
        def judge(self) -> None:
            self.failed, self.preflight = ("npu.clock",), True

    @contextmanager
    def watch(settings: Settings) -> Iterator[BoardWatch]:
        yield Unfit(SimpleNamespace(label="board"), None)  # type: ignore[arg-type]

    monkeypatch.setattr(bench_run, "board_watch", watch)
    assert run(["run", "bench", "-p", "8"]) == 7
    assert "unfit to be timed: preflight: npu.clock" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("other", "why"),
    [
        ({"label": "measured"}, "figures of different kinds: host, measured"),
        ({"partial": True}, "rows that were interrupted"),
        ({"model": replace(FACTS, sha256="cc")}, "different model files"),
    ],
)
def test_files_that_must_not_be_held_against_each_other_say_why(
    other: dict[str, Any], why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, found in (("a.jsonl", row()), ("b.jsonl", replace(row(), **other))):
        (tmp_path / name).write_text(json.dumps(row_document(found)), encoding="utf-8")
    assert run(["run", "bench", "compare", str(tmp_path / "a.jsonl"), str(tmp_path / "b.jsonl")]) == 0
    assert f"insufficient ({why})" in capsys.readouterr().out


def test_a_model_that_cannot_be_opened_takes_no_rows_with_it(tiny: Path, tmp_path: Path) -> None:
    (tmp_path / "broken.gguf").write_bytes(b"GGUF" + bytes(40))
    words = ("-m", str(tiny), "-m", str(tmp_path / "broken.gguf"), "-p", "8", "-r", "1", "--quant", "f32")
    done = ork("run", "bench", *words)
    assert done.returncode == 1 and "broken.gguf" in done.stderr
    assert "| tiny" in done.stdout and "pp8" in done.stdout


def test_a_history_of_one_commit_is_a_table_and_no_plot(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "results.jsonl"
    shown = []
    for commits in (("c1",), ("c1", "c2")):
        lines = [json.dumps(row_document(row(commit=name, taken=n))) for n, name in enumerate(commits)]
        file.write_text("\n".join(lines), encoding="utf-8")
        assert run(["run", "bench", "history", str(file)]) == 0
        shown.append(capsys.readouterr().out)
    assert "tokens per second by commit" not in shown[0] and "c1" in shown[0]
    assert "tokens per second by commit" in shown[1]


def test_a_prediction_is_of_int8_whatever_is_asked(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["run", "bench", "--predict", "-m", "qwen2.5-7b", "-p", "64", "-o", "json"]
    for asked, told in (("nf4-mixed", "w8a8"), ("f32", "w8a8"), ("w8a8-rot", "w8a8-rot")):
        assert run([*words, "--quant", asked]) == 0
        assert json.loads(capsys.readouterr().out)[0]["model"]["quant"] == told


def test_numbers_too_large_are_told_the_range(capsys: pytest.CaptureFixture[str]) -> None:
    for text in ("9" * 8, "9" * 5000):
        assert run(["run", "bench", "--predict", "-m", "qwen2.5-7b", "-p", text]) == 2
        assert "allowed: 0 to 1048576" in capsys.readouterr().err


def replace_failed(watch: BoardWatch) -> BoardWatch:
    return replace(watch, failed=())


def test_flags_of_llama_bench() -> None:
    made = cases_of(["512,1024"], ["8"], ["64,16"], ["1", "2"], ["512"], ["128"], default=0)
    assert len(made) == 8 and {case.piece for case in made} == {128}
    assert [case.test for case in cases_of(None, None, None, None, None, None, default=3)] == [
        "pp512",
        "tg128",
    ]
