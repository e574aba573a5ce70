"""Commands with standard streams that are closed, full, endless or cannot encode."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from orkbench_tui.errors import ExitCode

_ORK = f"{sys.executable} -m orkbench_tui.cli.main"


def _shell(words, environment=None):
    return subprocess.run(
        ["bash", "-c", f"{_ORK} {words}"],
        capture_output=True,
        text=True,
        errors="replace",
        timeout=60,
        check=False,
        env={**os.environ, **(environment or {})},
    )


@pytest.mark.parametrize("words", ["--help", "npu guards", "model list --json", "npu", "--version"])
@pytest.mark.parametrize(("redirect", "code"), [(">&-", 1), (">/dev/full", 12)])
def test_standard_output_that_takes_nothing_is_one_line(words, redirect, code):
    done = _shell(f"{words} {redirect}")
    assert done.returncode == code
    assert done.stderr.startswith("error: standard output cannot be written") and done.stderr.count("\n") == 1


@pytest.mark.parametrize("redirect", ["2>&-", "2>/dev/full", "<&-", "<&- 2>&-"])
def test_other_streams_change_nothing(redirect):
    done = _shell(f"npu guards {redirect}")
    assert done.returncode == 0
    assert "GRD-01" in done.stdout


def test_a_failure_keeps_its_code_without_standard_error():
    assert _shell("config shw 2>&-").returncode == ExitCode.USAGE


@pytest.mark.parametrize(
    "environment",
    [
        {"LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        {"PYTHONIOENCODING": "ascii"},
        {"PYTHONIOENCODING": "latin-1"},
    ],
)
def test_output_that_cannot_encode_shows_escapes(environment):
    name = "b\u00e4r\u2192"
    refused = _shell(f"model show '{name}.gguf'", environment)
    assert refused.returncode == ExitCode.USAGE
    assert refused.stderr.startswith("error: ") and "defect" not in refused.stderr
    done = _shell("config show --json", {**environment, "ORK_MODEL": "\U0001f600"})
    assert json.loads(done.stdout)["data"]["settings"]["model"] == "\U0001f600" or done.stdout.isascii()


@pytest.mark.parametrize(
    "words",
    [
        "run complete - </dev/zero",
        "run chat </dev/zero",
        "run bench read - </dev/zero",
        "model tokenize - </dev/zero",
        "board diagnose - </dev/zero",
        "board log --file - </dev/zero",
        "npu regcmd decode - </dev/zero",
    ],
)
def test_standard_input_without_end_is_refused(words):
    done = _shell(words)
    assert done.returncode == ExitCode.USAGE
    assert "standard input is too long: allowed: up to" in done.stderr


@pytest.mark.parametrize(
    ("words", "number", "code", "said"),
    [
        ("run complete -", signal.SIGTERM, ExitCode.TERMINATED, "terminated"),
        ("run complete -", signal.SIGHUP, ExitCode.HANGUP, "ended: the terminal hung up"),
        ("run complete -", signal.SIGINT, ExitCode.INTERRUPTED, "interrupted"),
        ("run bench read -", signal.SIGTERM, ExitCode.TERMINATED, "terminated"),
        ("board diagnose -", signal.SIGINT, ExitCode.INTERRUPTED, "interrupted"),
        ("board log --file -", signal.SIGTERM, ExitCode.TERMINATED, "terminated"),
        ("npu regcmd decode -", signal.SIGHUP, ExitCode.HANGUP, "ended: the terminal hung up"),
    ],
)
def test_a_signal_ends_reading_and_is_told(words, number, code, said):
    program = subprocess.Popen(
        [*_ORK.split(), *words.split()],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    # It reads: the second write finds the pipe empty again only when somebody took the first.
    assert program.stdin is not None and program.stderr is not None
    deadline = time.monotonic() + 20
    program.stdin.write("x" * 65536)
    program.stdin.flush()
    program.stdin.write("x" * 65536)
    program.stdin.flush()
    assert time.monotonic() < deadline
    program.send_signal(number)
    assert program.wait(timeout=20) == code
    assert program.stderr.read().strip() == said
    program.stdin.close()
    program.stderr.close()
