"""``ork npu matmul``: options in, one line or one document out, exit codes."""

import json

import pytest

from orkbench_tui.cli.main import run
from orkbench_tui.errors import ExitCode
from orkbench_tui.ops.checks import PATHS


@pytest.fixture(autouse=True)
def sim(monkeypatch):
    monkeypatch.setenv("ORK_TARGET", "sim")


@pytest.mark.parametrize("path", PATHS)
def test_each_path_is_exact(path, capsys):
    assert run(["npu", "matmul", "--shape", "1,512,64", "--path", path, "--check"]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"1x512 by 512x64, int8, {path}: exact; ") and out.count("\n") == 1
    assert ("time on the NPU unknown" in out) == (path in ("doorbell", "compiled"))


@pytest.mark.parametrize("dtype", ["int8->int8", "int8->int16", "fp16", "fp16->fp16", "int16", "int4"])
def test_each_dtype(dtype, capsys):
    assert run(["npu", "matmul", "--shape", "3,70,50", "--dtype", dtype, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "ork.npu.matmul/1" and document["source"] == "sim"
    data = document["data"]
    assert (data["m"], data["k"], data["n"]) == (3, 70, 50)
    assert data["dtype"] == dtype and data["path"] == "stream" and data["wrong"] == 0
    assert data["time_label"] == "predicted" and data["hw_ns"] > 0
    assert (data["bound"] is not None) == (data["worst"] is not None) == dtype.startswith("fp16")


def test_fp16_says_what_it_was_held_to(capsys):
    assert run(["npu", "matmul", "--shape", "2,64,32", "--dtype", "fp16"]) == 0
    assert "within the bound of 63 fp32 additions in any order (worst at " in capsys.readouterr().out


def test_without_check_it_says_so(capsys):
    assert run(["npu", "matmul", "--shape", "2,64,32", "--no-check"]) == 0
    assert "not checked" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "--shape"),
        (["--shape", "1,2"], "M,K,N are three whole numbers"),
        (["--shape", "1,2,3,4"], "M,K,N are three whole numbers"),
        (["--shape", "1,-2,3"], "K = -2: allowed: 1 to 65536"),
        (["--shape", "1000000000,2,3"], "M = 1000000000: allowed: 1 to 65536"),
        (["--shape", "1,2," + "9" * 41], "M,K,N are three whole numbers"),
        (["--shape", "1,2,x"], "M,K,N are three whole numbers"),
        (["--shape", "1,٢,3"], "M,K,N are three whole numbers"),
        (["--shape", "0,32,32"], "M = 0: allowed: 1 to 65536"),
        (["--shape", "1,70000,32"], "K = 70000"),
        (
            ["--shape", "1,32,32", "--dtype", "int5"],
            "allowed: int8, int8->int8, int8->int16, fp16, fp16->fp16, int16, int4",
        ),
        (["--shape", "1,32,32", "--path", "warp"], "allowed: blocking, chain, stream, doorbell, compiled"),
        (["--shape", "2,512,32", "--path", "compiled"], "allowed: int8, M = 1, K up to 4096"),
        (["--shape", "1,512,32", "--path", "compiled", "--dtype", "fp16"], "allowed: int8, M = 1"),
        (["--shape", "1,32,32", "--core", "3"], "--core 3: allowed: 0 to 2"),
        (["--shape", "1,32,32", "--core", "-1"], "--core -1: allowed: 0 to 2"),
        (["--shape", "1,32,32", "--seed", "-1"], "--seed -1"),
        (["128", "576", "1536"], "--shape"),
    ],
)
def test_wrong_words_are_one_line_and_exit_2(words, said, capsys):
    assert run(["npu", "matmul", *words]) == ExitCode.USAGE
    captured = capsys.readouterr()
    assert captured.out == ""
    errors = [line for line in captured.err.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1 and said in errors[0]


def test_a_guard_s_refusal_is_exit_7(capsys):
    assert run(["npu", "matmul", "--shape", "2,5000,32", "--path", "chain"]) == ExitCode.REFUSED
    assert "GRD-10" in capsys.readouterr().err


def test_a_wrong_result_is_exit_6(monkeypatch, capsys):
    from orkbench_tui.ops import checks
    from orkbench_tui.ops.matmul_reference import Comparison

    monkeypatch.setattr(checks, "compare", lambda *arguments: Comparison(3))
    assert run(["npu", "matmul", "--shape", "2,64,32"]) == ExitCode.UNHEALTHY
    assert "3 of 64 elements wrong" in capsys.readouterr().out


def test_a_second_process_is_told_who_holds_the_npu(capsys):
    from orkbench_tui.settings import Settings
    from orkbench_tui.target import open_target

    with open_target(Settings.load(target="sim")) as board:
        board.open_npu()
        assert run(["npu", "matmul", "--shape", "1,32,32"]) == ExitCode.BUSY
    assert "in use" in capsys.readouterr().err
