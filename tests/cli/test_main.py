"""The command line's own behaviour: help, versions, wrong words, exit codes."""

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
    "words", [["confg"], ["config", "shw"], ["config", "show", "--jsn"], ["npu", "matmul", "x", "1", "1"]]
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
