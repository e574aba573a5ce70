"""``ork npu timing``: the table names every deviation, and figures carry their labels."""

from __future__ import annotations

import json

import pytest

from orkbench_tui.cli.main import run


def test_the_table_shows_published_and_predicted_side_by_side(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["npu", "timing"]) == 0
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= 120
    assert "published" in text and "predicted" in text
    line = next(line for line in text.splitlines() if line.startswith("RES-41 doorbell 64x512x512"))
    assert "-62.1%" in line and "no term" in text


def test_the_whole_table_gives_a_reason_for_every_figure_it_does_not_predict(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["npu", "timing", "--whole"]) == 0
    lines = capsys.readouterr().out.splitlines()
    silent = [line for line in lines if line.startswith("RES-") and line.rstrip().endswith(" -")]
    assert not silent
    assert sum(line.startswith("RES-") for line in lines) > 200


def test_json_holds_all_of_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["npu", "timing", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)["data"]
    assert {row["id"] for row in data["comparisons"]} == {f"RES-{n:02}" for n in range(1, 82)}
    floor = next(row for row in data["constants"] if row["name"] == "submit_floor")
    assert (floor["value"], floor["unit"], floor["standing"]) == (132000.0, "ns", "published")
    assert len(data["closed"]) > 20


def test_constants_and_closed_hypotheses_are_printed_with_their_source(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["npu", "timing", "--constants"]) == 0
    assert "chain_marginal_probe" in capsys.readouterr().out
    assert run(["npu", "timing", "--closed"]) == 0
    assert "native-a" in capsys.readouterr().out


def test_records_are_printed_with_what_follows_from_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["npu", "timing", "--records"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "submit 63.7 (said 64)" in text and "neither resets nor domains" in text


def test_findings_are_searched_by_word_and_by_commit(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["npu", "timing", "--history", "34b539e"]) == 0
    assert capsys.readouterr().out.splitlines()[0].startswith("2026-06-13 tier 1a")
    assert run(["npu", "timing", "--history", "."]) == 0
    assert capsys.readouterr().out.count("2026-") >= 21
    assert run(["npu", "timing", "--closed"]) == 0
    assert "instead: nodes of the graph" in " ".join(capsys.readouterr().out.split())


def test_one_shape_is_told_what_binds_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["npu", "timing", "--shape", "1,512,512", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["source"] == "predicted" and document["data"]["regime"] == "micro-operation"
    assert run(["npu", "timing", "--shape", "256,4096,4096"]) == 0
    assert "monolithic" in capsys.readouterr().out


@pytest.mark.parametrize("text", ["1,2", "a,b,c", "0,1,1", "1,2,3,4,5,6"])
def test_a_shape_that_is_none_is_one_line(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["npu", "timing", "--shape", text]) == 2
    assert "expected M,K,N" in capsys.readouterr().err


def test_what_nobody_has_built_is_shown_with_where_its_figures_are_from(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["npu", "timing", "--what-if", "."]) == 0
    text = capsys.readouterr().out
    assert [block.split(":")[0] for block in text.split("\n\n")] == [
        "core-split",
        "verification",
        "precision",
        "asymmetric",
    ]
    assert text.count("figures are predicted") == 3 and text.count("figures are published") == 1
    assert "handoffs=160 (published)" in text and "acceptance=0.8 (assumed)" in text
    assert max(map(len, text.splitlines())) <= 120


def test_figures_of_ones_own_are_called_given(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["npu", "timing", "--what-if", "asymmetric", "--given", "parameters=7e9", "--given", "active=5e8"]
    assert run(words) == 0
    text = capsys.readouterr().out
    assert "parameters=7e+09 (given)" in text and "2 of its 4 GiB windows" in text
    assert run([*words, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    (row,) = document["data"]["what_ifs"]
    assert document["source"] == "predicted" and row["label"] == "predicted"
    assert [(knob["name"], knob["standing"]) for knob in row["given"]] == [
        ("parameters", "given"),
        ("active", "given"),
    ]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--what-if", "x"], "allowed: core-split"),
        (["--given", "a=1"], "--given without --what-if"),
        (["--what-if", ".", "--given", "a=1"], "name one"),
        (["--what-if", "precision", "--given", "a=1"], "precision takes baseline=NUMBER"),
    ],
)
def test_questions_that_are_none(words: list[str], why: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["npu", "timing", *words]) == 2
    assert why in capsys.readouterr().err
