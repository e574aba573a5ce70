"""Rows: as documents and back, in llama-bench's forms, in the ledger, over commits, in the report."""

from __future__ import annotations

import csv
import io
import json
import subprocess
from pathlib import Path

import pytest

from orkbench_tui.driver.soc import RK3588
from orkbench_tui.driver.timing.reproduction import comparisons
from orkbench_tui.driver.timing.shapes import REFERENCE_MODELS
from orkbench_tui.errors import InvalidFileError
from orkbench_tui.runner.bench.against import against_lines, against_published
from orkbench_tui.runner.bench.build import build_commit, kernels_sha256
from orkbench_tui.runner.bench.cases import Case
from orkbench_tui.runner.bench.history import commits_of, history_lines, series_of
from orkbench_tui.runner.bench.ledger import Ledger, read_rows
from orkbench_tui.runner.bench.measure import Measured, Repetition
from orkbench_tui.runner.bench.predict import predicted_rows
from orkbench_tui.runner.bench.record import made_row, parse_row, row_document
from orkbench_tui.runner.bench.render import rendered
from orkbench_tui.runner.bench.report_html import html_report
from tests.runner.bench.fakes import FACTS, row


def test_a_row_survives_its_document() -> None:
    made = row(reasons=["hot"], arm="a")
    assert parse_row(json.loads(json.dumps(row_document(made)))) == made


def test_documents_carry_llama_bench_s_fields_and_the_configuration() -> None:
    document = row_document(row([100.0, 120.0]))
    assert (document["n_prompt"], document["n_gen"], document["n_threads"]) == (64, 0, 2)
    assert document["avg_ts"] == 110 and document["stddev_ts"] == pytest.approx(14.142, abs=0.001)
    assert document["avg_ns"] == pytest.approx((64 / 100 + 64 / 120) / 2 * 1e9)
    assert document["model"]["weights"] == 7 and document["model"]["resident_bytes"] == 1 << 20
    assert document["model"]["sha256"] == "aa" and document["model"]["pack_sha256"] == "bb"
    assert document["state"]["governors"] == {"npu": "userspace"}
    assert document["label"] == "host" and document["comparable"] is True


def test_rows_of_another_version_are_left_out_and_said_so(tmp_path: Path) -> None:
    other = {**row_document(row()), "schema": "ork.bench.row/2"}
    damaged = {**row_document(row()), "samples_ts": ["x"]}
    path = tmp_path / "r.jsonl"
    path.write_text(
        "\n".join(map(json.dumps, [other, row_document(row()), damaged, 3])) + "\n{cut", encoding="utf-8"
    )
    found = read_rows(path)
    assert len(found.rows) == 1
    assert len(found.skipped) == 3 and any("ork.bench.row/2" in text for text in found.skipped)
    path.write_text(json.dumps(other), encoding="utf-8")
    with pytest.raises(InvalidFileError, match="row/2"):
        read_rows(path)


def test_the_ledger_grows_by_whole_lines(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "deep" / "results.jsonl")
    assert ledger.rows().rows == ()
    ledger.append([row(), row(prompt=0, generate=8)])
    with ledger.path.open("a", encoding="utf-8") as cut:
        cut.write('{"schema": "ork.be')
    ledger.append([row(commit="c2")])
    found = ledger.rows()
    assert [r.case.test for r in found.rows] == ["pp64", "tg8", "pp64"] and len(found.skipped) == 1


def test_the_markdown_table_is_llama_bench_s() -> None:
    lines = rendered([row([100.0, 102.0]), row([5.0], partial=True, reasons=["interrupted"])], "md")
    assert lines[0].startswith("| model") and "t/s" in lines[0]
    assert lines[1].count("|") == lines[0].count("|") and "---:" in lines[1]
    assert "101.00 ± 1.41" in lines[2] and "host" in lines[2]
    assert "host, partial" in lines[3]
    assert "not comparable: interrupted" in lines
    assert any("loaded in 0.50 s" in line and "7 of 7 weights" in line for line in lines)


def test_csv_and_json_hold_the_same_rows() -> None:
    rows = [row(), row(prompt=0, generate=8)]
    table = list(csv.DictReader(io.StringIO("\n".join(rendered(rows, "csv")))))
    assert [line["test"] for line in table] == ["pp64", "tg8"]
    assert table[0]["model_sha256"] == "aa" and table[0]["governors"] == "npu=userspace"
    assert [parse_row(document) for document in json.loads("\n".join(rendered(rows, "json")))] == rows
    assert [parse_row(json.loads(line)) for line in rendered(rows, "jsonl")] == rows


def test_an_interrupted_case_says_how_far_it_came() -> None:
    part = Measured(Case(8, 0, 64, 64, 0), True, [Repetition(0.1, 0.1, 8, 5, 2, 0.0)], partial=True)
    made = made_row(
        part,
        FACTS,
        label="measured",
        state=None,
        reasons=[],
        version="1",
        commit="",
        taken_unix_s=0.0,
        threads=1,
    )
    assert made.partial and not made.comparable
    assert made.reasons == ("interrupted after 1 repetitions",)
    assert (made.npu_ns, made.npu_label, made.submits) == (5, "measured", 2)


def test_history_is_a_line_for_each_test() -> None:
    rows = [
        row([100], taken=2, commit="new"),
        row([90], taken=1, commit="old"),
        row([95], taken=1.5, commit="old"),
    ]
    rows += [row([50], label="predicted", commit="old"), row([1], partial=True, commit="old")]
    assert commits_of(rows) == ["old", "new"]
    assert series_of(rows) == [("tiny w8a8 pp64 host", [(0.0, 92.5), (1.0, 100.0)])]
    assert any("92.50" in line or "62.00" in line for line in history_lines(rows))


def test_predictions_are_labelled_and_never_comparable() -> None:
    cases = (Case(512, 0, 512, 512, 4), Case(0, 16, 512, 512, 4))
    shape = REFERENCE_MODELS["qwen2.5-7b"]
    made = predicted_rows(shape, FACTS, cases, RK3588, version="1", now=0.0)
    assert [r.label for r in made] == ["predicted"] * 2
    assert not any(r.comparable for r in made)
    assert made[0].mean == pytest.approx(45.3, rel=0.01)
    assert (made[0].npu_label, made[1].npu_label) == ("predicted", "")
    assert made[0].model.load_s is not None and made[0].model.load_s > 10


def test_own_predicted_and_published_stand_side_by_side() -> None:
    found = against_published([row([200.0])], REFERENCE_MODELS["qwen3-0.6b"], RK3588)
    own, *published = found
    assert (own.own, own.own_label, own.published) == (200.0, "host", None)
    seven = next(r for r in published if r.model == "qwen2.5-7b" and r.test == "pp512")
    assert (seven.own, seven.published) == (None, 45.3) and seven.predicted == pytest.approx(45.3, rel=0.1)
    assert own.ceiling is None
    token = next(r for r in published if r.model == "qwen3-1.7b" and r.test == "tg128")
    assert token.predicted is not None and token.ceiling is not None and token.published is not None
    assert token.predicted < token.published <= 1.01 * token.ceiling
    lines = against_lines(found)
    assert "200.00 host" in lines[1] and "fc0d618c8" in "".join(lines)


def test_the_report_is_one_file_and_escapes_names() -> None:
    from dataclasses import replace

    bad = replace(row(reasons=["<b>"]), model=replace(FACTS, name="<script>\x1b[31m"))
    page = html_report(
        [bad],
        against_published([bad], REFERENCE_MODELS["qwen3-0.6b"], RK3588),
        comparisons(),
        (),
        series_of([row()]),
        title="t",
        taken="now",
    )
    assert page.startswith("<!doctype html>") and "<script>" not in page and "\x1b" not in page
    assert "src=" not in page and "href=" not in page and "@import" not in page
    assert "host" in page and "predicted" in page and "published" in page and "not comparable" in page


def test_the_build_is_the_commit_of_the_tree(tmp_path: Path) -> None:
    assert build_commit(tmp_path) == ""
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    (tmp_path / ".git" / "HEAD").write_text("ref: refs/heads/x\n", encoding="ascii")
    (tmp_path / ".git" / "packed-refs").write_text(
        "# pack\n" + "ab" * 20 + " refs/heads/x\n", encoding="ascii"
    )
    assert build_commit(tmp_path) == "ab" * 6
    (tmp_path / ".git" / "HEAD").write_text("cd" * 20 + "\n", encoding="ascii")
    assert build_commit(tmp_path) == "cd" * 6
    assert len(kernels_sha256()) == 64
