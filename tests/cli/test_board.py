"""``ork board`` as a user types it."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from tests.conftest import ork

SAMPLES = Path(__file__).parents[1] / "data" / "samples"


def test_status_is_a_page_and_a_document() -> None:
    page = ork("board", "status", "--target", "sim")
    assert page.returncode == 0, page.stderr
    lines = page.stdout.splitlines()
    assert len(lines) <= 24 and max(map(len, lines)) <= 80
    assert "core 2" in page.stdout and "Radxa ROCK 5B" in page.stdout
    answer = ork("board", "status", "--target", "sim", "--json")
    document = json.loads(answer.stdout)
    assert (
        answer.returncode == 0 and document["schema"] == "ork.board.status/1" and document["source"] == "sim"
    )
    data = document["data"]
    assert [core["core"] for core in data["npu"]["cores"]] == [0, 1, 2]
    assert all(isinstance(core["busy_pct"], float) for group in data["cpu"] for core in group["cores"])
    # What only patched kernels have.
    assert {gap["field"] for gap in data["unavailable"]} == {"npu.hw_time", "sram"}
    assert all(gap["remedy"] for gap in data["unavailable"])


def test_status_keeps_to_the_terminal() -> None:
    leader, follower = pty.openpty()
    try:
        fcntl.ioctl(leader, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 60, 0, 0))
        words = [sys.executable, "-m", "orkbench_tui.cli.main", "board", "status", "--target", "sim"]
        assert subprocess.run(words, stdout=follower, check=False, timeout=60).returncode == 0
        text = os.read(leader, 65536).decode()
    finally:
        os.close(leader)
        os.close(follower)
    assert max(map(len, text.splitlines())) == 60


def test_watch_gives_one_line_a_sample() -> None:
    text = ork("board", "watch", "--target", "sim", "--count", "2", "--interval", "0.2")
    assert text.returncode == 0, text.stderr
    assert len(text.stdout.splitlines()) == 4
    assert text.stdout.startswith("source: the simulated board, pace fast\n")
    stream = ork("board", "watch", "--target", "sim", "--count", "2", "--interval", "0.2", "--json")
    documents = [json.loads(line) for line in stream.stdout.splitlines()]
    assert [document["data"]["seq"] for document in documents] == [0, 1]
    assert documents[1]["data"]["unix_s"] > documents[0]["data"]["unix_s"]


@pytest.mark.parametrize(
    "name", ["dmesg-reset-storm.txt", "kmsg-raw.txt", "journalctl-k.json", "dmesg-json-2.38.json"]
)
def test_log_of_a_file(name: str) -> None:
    answer = ork("board", "log", "--file", str(SAMPLES / name), "--json")
    document = json.loads(answer.stdout)
    assert answer.returncode == 0 and document["source"] == "replay"
    assert document["data"]["counts"]["resets"] >= 1 and document["data"]["counts"]["lower_bound"] is True
    text = ork("board", "log", "--file", str(SAMPLES / name))
    assert "job timed out" in text.stdout and text.stdout.splitlines()[-1].startswith("at least ")


def test_log_of_the_simulated_board() -> None:
    answer = ork("board", "log", "--target", "sim")
    assert answer.returncode == 0 and "Initialized rknpu" in answer.stdout
    assert answer.stdout.splitlines()[-1] == "no trouble since boot"
    assert answer.stdout.startswith("source: the simulated board, which writes this log\n")


def test_a_foreign_file_cannot_reach_the_terminal(tmp_path: Path) -> None:
    path = tmp_path / "evil.txt"
    path.write_bytes(b"[    1.0] RKNPU: odd \x1b]0;title\x07 \xff\n")
    answer = ork("board", "log", "--file", str(path))
    assert answer.returncode == 0 and "\x1b" not in answer.stdout and "npu.unknown" in answer.stdout


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("board", "log", "--file", "/nonexistent/log"), 2),
        (("board", "log", "--file", "/tmp"), 2),
        (("board", "log", "--file", "/dev/zero"), 2),
        (("board", "log", "--file", "/dev/null", "--follow"), 2),
        (("board", "status", "--target", "moon"), 2),
        (("board", "status", "--target", "board"), 3),
        (("board", "watch", "--interval", "0"), 2),
        *((("board", "watch", "--interval", value), 2) for value in ("nan", "inf", "-1", "1e300")),
        (("board", "watch", "--count", "-1"), 2),
    ],
)
def test_bad_words_end_in_one_line(words: tuple[str, ...], code: int) -> None:
    answer = ork(*words)
    assert answer.returncode == code, answer.stderr
    assert answer.stdout == "" and "Traceback" not in answer.stderr
    assert len([line for line in answer.stderr.splitlines() if line.startswith("error: ")]) == 1


_OTHER_BYTES = [bytes(range(128, 256)) * 1000, bytes(100_000), b"\x1f\x8b\x08" + b"\xff\xfe" * 9000]


@pytest.mark.parametrize("data", _OTHER_BYTES, ids=["latin", "zeros", "packed"])
def test_a_log_of_other_bytes_is_refused(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "log").write_bytes(data)
    answer = ork("board", "log", "--file", str(tmp_path / "log"))
    assert answer.returncode == 1 and "is no text" in answer.stderr


def test_a_log_larger_than_any_board_keeps_is_refused(tmp_path: Path) -> None:
    with (tmp_path / "log").open("wb") as file:
        file.truncate((64 << 20) + 1)
    answer = ork("board", "log", "--file", str(tmp_path / "log"))
    assert answer.returncode == 2 and "allowed: up to 64 MiB" in answer.stderr
