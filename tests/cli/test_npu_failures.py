"""``ork npu failures``: after a job failed on the simulated board, what was submitted is listed and read."""

from __future__ import annotations

import json

import pytest

from orkbench_tui.cli.main import run
from orkbench_tui.driver.failure_files import failures_folder
from orkbench_tui.errors import ExitCode


@pytest.fixture(autouse=True)
def sim(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORK_TARGET", "sim")
    monkeypatch.setenv("ORK_NPU_TIMEOUT_MS", "300")


def _fail(capsys: pytest.CaptureFixture[str]) -> str:
    """Let a job run into a wedged core; what the command said."""
    assert run(["sim", "start"]) == 0
    assert run(["sim", "fault", "set", "wedge"]) == 0
    capsys.readouterr()
    # fp16: an int8 run from cold would begin with a reset, which ends the fault.
    assert run(["npu", "matmul", "--shape", "3,512,64", "--dtype", "fp16"]) == ExitCode.UNHEALTHY
    return capsys.readouterr().err


def test_nothing_failed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["npu", "failures"]) == 0
    assert capsys.readouterr().out == f"no NPU job that failed is kept in {failures_folder()}\n"
    assert run(["npu", "failures", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["data"]["failures"] == []
    assert run(["npu", "failures", "last"]) == ExitCode.USAGE


def test_a_wedged_core_leaves_a_job_that_can_be_read_word_by_word(capsys: pytest.CaptureFixture[str]) -> None:
    said = _fail(capsys)
    (path,) = failures_folder().iterdir()
    assert said.count("\n") == 1 and "ETIMEDOUT" in said
    assert f"look at `ork board log`, then run again; `ork npu failures {path.name}` shows" in said

    assert run(["npu", "failures"]) == 0
    head, row = capsys.readouterr().out.splitlines()
    assert str(failures_folder()) in head
    assert row.startswith(f"{path.name}  sim, core 0, 1 task: running a job of 1 task on core 0: ")

    assert run(["npu", "failures", path.name]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert (
        "core 0 (mask 0x1), 1 task of matmul, flags PC|PINGPONG, waited for, timeout 300 ms, domain 0"
        in lines
    )
    assert any(line.endswith("interrupt status none written") for line in lines)
    assert any("matmul fp16->fp32 3x512x" in line for line in lines)
    assert (
        sum(line.startswith(("    a 0x", "    w 0x", "    c 0x")) and "  buffer " in line for line in lines)
        == 3
    )
    assert any("driver 0.9.8, NPU 0x46495245" in line for line in lines)
    assert lines[-2].startswith("mode F16, ") and lines[-1].startswith("counters: submits 0, ")

    assert run(["npu", "regcmd", "decode", str(path), "--json"]) == 0
    data = json.loads(capsys.readouterr().out)["data"]
    assert (data["op"], data["dtype"], data["m"], data["k"]) == ("matmul", "fp16->fp32", 3, 512)
    assert data["words"] == 112 and not data["findings"]


def test_json_is_the_record(capsys: pytest.CaptureFixture[str]) -> None:
    _fail(capsys)
    assert run(["npu", "failures", "last", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["schema"], document["source"]) == ("ork.npu.failure/1", "sim")
    (path,) = failures_folder().iterdir()
    assert document["data"] == json.loads(path.read_text())["data"]
    assert run(["npu", "failures", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["data"]["failures"]
    assert (row["name"], row["cores"], row["tasks"]) == (path.name, [0], 1)


def test_the_setting_keeps_none(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("ORK_NPU_FAILURE_FILES", "0")
    assert "npu failures" not in _fail(capsys)
    assert not failures_folder().exists()


def test_a_record_of_somebody_else_moves_no_cursor(capsys: pytest.CaptureFixture[str]) -> None:
    _fail(capsys)
    (path,) = failures_folder().iterdir()
    document = json.loads(path.read_text())
    document["data"]["failure"]["what"] = "a job\x1b[2J\nof mine"
    document["data"]["jobs"][0]["flags"] = "PC\x1b]0;title\x07"
    path.write_text(json.dumps(document))
    for words in (["npu", "failures"], ["npu", "failures", "last"]):
        assert run(words) == 0
        assert "\x1b" not in capsys.readouterr().out
