"""``ork npu probe``: lists, verdicts and exit codes."""

from __future__ import annotations

import json

import pytest

from orkbench_tui.cli.main import run
from orkbench_tui.ops.probes import catalogue
from orkbench_tui.ops.probes.declaration import Answer, Control, Probe, Verdict


def _only(monkeypatch: pytest.MonkeyPatch, *verdicts: Verdict) -> None:
    probes = {
        f"p{index}": Probe(
            f"p{index}",
            "Is it?",
            "f",
            "r",
            "c",
            lambda b: Control(True, "s"),
            lambda b, v=verdict: Answer(v, "w"),
        )
        for index, verdict in enumerate(verdicts)
    }
    monkeypatch.setattr(catalogue, "PROBES", probes)


@pytest.mark.parametrize(
    ("verdict", "code"), [(Verdict.PASS, 0), (Verdict.FAIL, 6), (Verdict.INCONCLUSIVE, 1)]
)
def test_the_exit_code_is_the_verdict(
    verdict: Verdict, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _only(monkeypatch, verdict)
    assert run(["npu", "probe", "p0", "--target", "sim"]) == code
    assert f"  {verdict.value}: w" in capsys.readouterr().out


def test_all_of_them_fail_together_and_are_open_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _only(monkeypatch, Verdict.PASS, Verdict.INCONCLUSIVE)
    assert run(["npu", "probe", "--all", "--target", "sim"]) == 0
    assert "2 probes: 1 pass, 0 fail, 1 inconclusive" in capsys.readouterr().out
    _only(monkeypatch, Verdict.PASS, Verdict.FAIL)
    assert run(["npu", "probe", "--all", "--json", "--target", "sim"]) == 6
    document = json.loads(capsys.readouterr().out)
    assert document["source"] == "sim"
    assert [row["verdict"] for row in document["data"]] == ["pass", "fail"]


def test_the_list_and_a_name_that_is_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["npu", "probe", "--list"]) == 0
    text = capsys.readouterr().out
    assert "chain-marginal" in text and "needs --consent" in text
    assert run(["npu", "probe", "--list", "--json"]) == 0
    assert {row["name"] for row in json.loads(capsys.readouterr().out)["data"]} == set(catalogue.PROBES)
    assert run(["npu", "probe", "chain-margin"]) == 2
    assert "did you mean chain-marginal?" in capsys.readouterr().err
    assert run(["npu", "probe"]) == 2
    assert run(["npu", "probe", "halt", "--all"]) == 2


def test_a_probe_on_the_board_of_the_settings_warns_of_what_is_closed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["npu", "probe", "chain-envelope", "--target", "sim"]) == 0
    assert "K % 512 = 0 and K <= 4096, exactly" in capsys.readouterr().out
    assert run(["npu", "probe", "weight-stationary", "--json", "--target", "sim"]) == 0
    found = capsys.readouterr()
    assert "GRD-57" in found.err and "0.78 times" in found.err
    assert json.loads(found.out)["data"][0]["control"]["ok"] is True
