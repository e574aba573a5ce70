"""``ork board export`` as a user types it."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

from tests.conftest import ork


def test_metrics_are_printed_and_written(tmp_path: Path) -> None:
    answer = ork("board", "export", "--target", "sim")
    assert answer.returncode == 0 and "\nork_up 1.0\n" in answer.stdout
    path = tmp_path / "ork.prom"
    answer = ork("board", "export", "--target", "sim", "--textfile", str(path), "--once")
    assert answer.returncode == 0 and not answer.stdout and "\nork_up 1.0\n" in path.read_text()


def test_wrong_words(tmp_path: Path) -> None:
    for words in (
        ("--once",),
        ("--port", "9100", "--textfile", str(tmp_path / "a.prom")),
        ("--textfile", str(tmp_path / "a.txt")),
        ("--port", "0"),
        ("--textfile", str(tmp_path / "none" / "a.prom"), "--once"),
    ):
        answer = ork("board", "export", "--target", "sim", *words)
        assert answer.returncode == 2, (words, answer.stderr)


def test_a_port_of_this_machine_answers_until_it_is_ended() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    words = [
        sys.executable,
        "-m",
        "orkbench_tui.cli.main",
        "board",
        "export",
        "--target",
        "sim",
        "--port",
        str(port),
    ]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as program:
        assert program.stderr is not None
        line = program.stderr.readline()
        while "metrics at" not in line and line:
            line = program.stderr.readline()
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=20) as answer:
            assert b"\nork_up 1.0\n" in answer.read()
        program.send_signal(signal.SIGTERM)
        assert program.wait(20) == 143
