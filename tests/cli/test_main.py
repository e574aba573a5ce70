"""The command line's own behaviour: help, versions, wrong words, exit codes."""

import os
import subprocess
import sys

import pytest

from orkbench_tui.cli.main import COMMANDS, run
from orkbench_tui.errors import ExitCode
from orkbench_tui.version import VERSION


def test_help_lists_every_command(capsys):
    assert run(["--help"]) == 0
    text = capsys.readouterr().out
    for name in COMMANDS:
        assert f"\n  {name} " in text
    assert "Exit codes:" in text


def test_version(capsys):
    assert run(["--version"]) == 0
    assert VERSION in capsys.readouterr().out


def test_no_words_is_help_and_a_usage_error(capsys):
    assert run([]) == ExitCode.USAGE
    assert "Commands:" in capsys.readouterr().out


@pytest.mark.parametrize(
    "words",
    [["confg"], ["config", "shw"], ["config", "show", "--jsn"], ["npu", "matmul", "--shape", "x,1,1"]],
)
def test_wrong_words_are_one_line_on_stderr(words, capsys):
    assert run(words) == ExitCode.USAGE
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("error: ") and captured.err.count("\n") == 1


def test_a_wrong_setting_is_one_line(monkeypatch, capsys):
    monkeypatch.setenv("ORK_TARGET", "moon")
    assert run(["config", "show"]) == ExitCode.USAGE
    assert "allowed: auto, board, sim" in capsys.readouterr().err


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_has_help(name, capsys):
    assert run([name, "--help"]) == 0
    assert "Usage: ork " + name in capsys.readouterr().out


@pytest.mark.parametrize(
    "words",
    [
        ["--help"],
        ["npu"],
        ["config", "show"],
        ["npu", "guards"],
        ["board", "--help"],
        ["npu", "guards", "--json"],
    ],
)
def test_a_reader_that_closes_early_ends_the_command_quietly(words):
    command = f"{sys.executable} -m orkbench_tui.cli.main {' '.join(words)} | true; echo ${{PIPESTATUS[0]}}"
    run = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert run.stderr == ""
    assert int(run.stdout) in (ExitCode.OK, ExitCode.USAGE)


def test_a_full_disk_under_the_output_is_one_line():
    with open("/dev/full", "w") as full:  # noqa: PTH123
        run = subprocess.run(
            [sys.executable, "-m", "orkbench_tui.cli.main", "config", "show"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert run.returncode == ExitCode.NO_MEMORY
    assert run.stderr == "error: standard output cannot be written: No space left on device\n"


@pytest.mark.parametrize("name", ["run", "model", "npu", "board", "sim", "config"])
def test_a_group_without_a_word_prints_its_help(name, capsys):
    assert run([name]) == ExitCode.USAGE
    captured = capsys.readouterr()
    assert captured.err == "" and captured.out.splitlines()[0].startswith(f"Usage: ork {name}")
    assert "--install-completion" not in captured.out


def test_completion_completes(monkeypatch):
    environment = {**os.environ, "_ORK_COMPLETE": "complete_bash", "COMP_WORDS": "ork bo", "COMP_CWORD": "1"}
    code = "import sys; sys.argv = ['ork']; from orkbench_tui.cli.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    assert done.stdout.split() == ["board"]
