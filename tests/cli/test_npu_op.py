"""``ork npu op``: runs on the simulated board, compares, lists, and refuses in one line."""

import json

import pytest

from orkbench_tui.cli.main import run
from orkbench_tui.driver.sdp.table import ROWS
from orkbench_tui.errors import ExitCode
from orkbench_tui.ops import element_wise_checks


def test_the_list_shows_every_row_with_its_evidence(capsys):
    assert run(["npu", "op", "--list"]) == 0
    lines = [line.split(maxsplit=3) for line in capsys.readouterr().out.splitlines()[1:]]
    assert [(op, dtype) for op, dtype, *_ in lines[: len(ROWS)]] == [(row.op, row.dtype) for row in ROWS]
    assert all(len(line) == 4 for line in lines)
    assert run(["npu", "op", "--list", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)["data"]
    assert [(row["op"], row["dtype"]) for row in data] == [(op, dtype) for op, dtype, *_ in lines]


def test_an_operation_is_run_and_compared(capsys):
    assert run(["npu", "op", "add", "--shape", "7,64", "--check", "--target", "sim"]) == 0
    assert "add int8 7x64: exact; 1 task in 1 submit" in capsys.readouterr().out
    words = [
        "npu",
        "op",
        "silu",
        "--dtype",
        "fp16",
        "--shape",
        "3,32",
        "--check",
        "--json",
        "--target",
        "sim",
    ]
    assert run(words) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"].startswith("ork.npu.op/") and document["source"] == "sim"
    data = document["data"]
    assert (data["op"], data["dtype"], data["rows"], data["channels"]) == ("silu", "fp16", 3, 32)
    assert data["wrong"] == 0 and data["time_label"] == "predicted"
    assert run(["npu", "op", "add", "--target", "sim"]) == 0
    assert "not compared" in capsys.readouterr().out


def test_a_wrong_result_is_its_own_exit_code(capsys, monkeypatch):
    wrong = {**element_wise_checks.REFERENCES, "copy": lambda a, b: a + 1}
    monkeypatch.setattr(element_wise_checks, "REFERENCES", wrong)
    words = ["npu", "op", "copy", "--dtype", "int16", "--shape", "2,8", "--check", "--target", "sim"]
    assert run(words) == ExitCode.UNHEALTHY
    assert "elements wrong, the worst by 1" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["nothing"], ExitCode.USAGE, "no operation 'nothing'"),
        (["silu", "--dtype", "int32"], ExitCode.USAGE, "it exists for int8, int16, fp16"),
        (["add", "--shape", "7"], ExitCode.USAGE, "expected M,N"),
        (["add", "--shape", "0,16"], ExitCode.USAGE, "M = 0, allowed: 1 to 65536"),
        (["add", "--shape", "1,99999"], ExitCode.USAGE, "N = 99999"),
        (["add", "--shape", "3,7"], ExitCode.USAGE, "multiples of 16"),
        ([], ExitCode.USAGE, "ork npu op --list"),
    ],
)
def test_bad_input_is_one_line(words, code, message, capsys):
    assert run(["npu", "op", *words, "--target", "sim"]) == code
    captured = capsys.readouterr()
    assert captured.out == ""
    assert message in captured.err and captured.err.count("\n") == 1
