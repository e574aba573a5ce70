"""``ork npu guards`` and ``ork npu modes``: whole, within the terminal, and the same in JSON."""

import json

import pytest

from orkbench_tui.cli.main import run
from orkbench_tui.driver.guards import GUARDS
from orkbench_tui.errors import ExitCode


@pytest.mark.parametrize(("columns", "limit"), [("20", 60), ("80", 80), ("100", 100), ("250", 100)])
def test_the_guard_table_keeps_to_the_terminal_and_loses_no_word(columns, limit, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", columns)
    assert run(["npu", "guards"]) == 0
    text = capsys.readouterr().out
    assert max(len(line) for line in text.splitlines()) <= limit
    for guard in GUARDS.values():
        assert guard.id in text
        for word in guard.condition.split():
            assert word in text


def test_the_guard_table_says_what_is_enforced(capsys):
    assert run(["npu", "guards"]) == 0
    lines = {line[:6]: " ".join(line.split()) for line in capsys.readouterr().out.splitlines()}
    assert lines["GRD-02"].startswith("GRD-02 refuse yes ")
    assert lines["GRD-46"].startswith("GRD-46 not offered by absence ")
    assert lines["GRD-52"].startswith("GRD-52 refuse otherwise ")
    for guard in GUARDS.values():
        assert lines[guard.id].startswith(f"{guard.id} {guard.reaction} {guard.enforced} ")


@pytest.mark.parametrize("word", ["GRD-02", "grd-02", "GRD2", "2", "02"])
def test_one_guard_is_shown_with_its_evidence(word, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert run(["npu", "guards", word]) == 0
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= 80
    flat = " ".join(text.split())
    guard = GUARDS["GRD-02"]
    for part in (
        guard.id,
        guard.condition,
        guard.consequence,
        guard.action,
        guard.evidence,
        guard.enforced_in,
    ):
        assert part in flat


def test_a_guard_held_in_another_way_says_how_and_where(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    assert run(["npu", "guards", "GRD-24"]) == 0
    flat = " ".join(capsys.readouterr().out.split())
    assert "enforced otherwise" in flat and GUARDS["GRD-24"].how in flat
    assert "where orkbench_tui.driver.mode_gate:Priming" in flat


@pytest.mark.parametrize("word", ["GRD-61", "0", "GRD-", "sram", "GRD-002", "٢"])
def test_an_unknown_guard_is_one_line(word, capsys):
    assert run(["npu", "guards", word]) == ExitCode.USAGE
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "allowed: GRD-01 to GRD-60" in captured.err and captured.err.count("\n") == 1


def test_guards_as_json(capsys):
    assert run(["npu", "guards", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "ork.npu.guards/1" and document["source"] == "host"
    assert [row["id"] for row in document["data"]] == list(GUARDS)
    assert document["data"][1]["reaction"] == "refuse" and document["data"][1]["enforced"] == "yes"
    assert run(["npu", "guards", "--json", "GRD-44"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["data"]
    assert row["enforced_in"] == "orkbench_tui.driver.submit:checked_job_flags"


def _cells(text):
    rows = [line.split() for line in text.splitlines()[1:15]]
    return {(row[0], row[1]): row[2:] for row in rows}


def test_the_mode_matrix_fits_80_columns_and_names_every_source(capsys):
    assert run(["npu", "modes"]) == 0
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= 80
    assert text.splitlines()[0].split()[2:] == [
        "cold",
        "F16",
        "I8",
        "I8_CHAIN",
        "I4",
        "I4_CHAIN",
        "I4_STREAM",
    ]
    cells = _cells(text)
    assert len(cells) == 14
    assert cells["CHAIN_NT", "I8_CHAIN"] == ["R+Ws+Zs", "K", "K", ".", "R+Ws+Zs", "R+Ws+Zs", "R+Ws+Zs"]
    assert cells["SDP", "I8"] == ["K", "K", ".", "K", "K", "K", "K"]
    assert "nothrash off, f16warm on, sdp_noreset on" in text


@pytest.mark.parametrize(
    ("option", "row", "codes"),
    [
        ("--nothrash", ("I4_INCR", "I4"), ["R", "R", "K", "K", ".", "R", "R"]),
        ("--no-f16warm", ("STREAM_I8", "I8"), ["R+Wb", "R+Wb", ".", "K", "R+Wb", "R+Wb", "R+Wb"]),
        ("--no-sdp-noreset", ("SDP", "F16"), ["R", ".", "R", "R", "R", "R", "R"]),
    ],
)
def test_each_knob_changes_the_matrix(option, row, codes, capsys):
    assert run(["npu", "modes"]) == 0
    assert _cells(capsys.readouterr().out)[row] != codes
    assert run(["npu", "modes", option]) == 0
    assert _cells(capsys.readouterr().out)[row] == codes


def test_modes_as_json(capsys):
    assert run(["npu", "modes", "--json", "--no-f16warm"]) == 0
    data = json.loads(capsys.readouterr().out)["data"]
    assert data["knobs"] == {"nothrash": False, "f16warm": False, "sdp_noreset": True}
    assert len(data["cells"]) == 98
    cell = next(
        c for c in data["cells"] if (c["profile"], c["from"], c["to"]) == ("MC_MM", "I8_CHAIN", "F16")
    )
    assert cell == {
        "profile": "MC_MM",
        "from": "I8_CHAIN",
        "to": "F16",
        "reset": False,
        "warm_clear": "per_core",
        "size_clear": "per_core",
        "keep": False,
        "code": "Wp+Zp",
    }
