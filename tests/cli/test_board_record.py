"""``ork board record`` and ``replay`` as a user types them."""

from __future__ import annotations

import csv
import json
import signal
import subprocess
import sys
from pathlib import Path

from tests.conftest import ork

RECORD = [sys.executable, "-m", "orkbench_tui.cli.main", "board", "record"]


def test_record_and_replay(tmp_path: Path) -> None:
    path = tmp_path / "a.rec.gz"
    made = ork("board", "record", str(path), "--target", "sim", "--count", "3", "--interval", "0.1")
    assert made.returncode == 0, made.stderr
    assert made.stdout.startswith("3 samples in ") and "ork-tui --replay" in made.stdout
    text = ork("board", "replay", str(path))
    assert text.returncode == 0 and len(text.stdout.splitlines()) == 4
    stream = ork("board", "replay", str(path), "--json", "--from", "2")
    documents = [json.loads(line) for line in stream.stdout.splitlines()]
    assert [document["data"]["seq"] for document in documents] == [1, 2]
    assert {document["source"] for document in documents} == {"replay"}
    assert {document["schema"] for document in documents} == {"ork.board.watch/1"}
    table = list(csv.DictReader(ork("board", "replay", str(path), "--csv").stdout.splitlines()))
    assert len(table) == 3 and table[2]["npu0_load_pct"] == "0" and table[0]["cpu0_busy_pct"] == ""
    assert ork("board", "replay", str(path), "--csv", "--json").returncode == 2
    again = ork("board", "record", str(path), "--target", "sim", "--count", "1")
    assert again.returncode == 2 and "is there already" in again.stderr


def test_ctrl_c_is_the_usual_end(tmp_path: Path) -> None:
    path = tmp_path / "a.rec"
    words = [*RECORD, str(path), "--target", "sim", "--interval", "0.1"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as program:
        assert program.stderr is not None and program.stdout is not None
        assert "recording to" in (program.stderr.readline() + program.stderr.readline())
        program.send_signal(signal.SIGINT)
        assert program.wait(30) == 0
        assert " samples in " in program.stdout.read()


def test_replay_of_damaged_files(tmp_path: Path) -> None:
    path = tmp_path / "a.rec"
    assert (
        ork("board", "record", str(path), "--target", "sim", "--count", "3", "--interval", "0.1").returncode
        == 0
    )
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:2], b"junk\n", *lines[2:]]) + b'{"source":')
    answer = ork("board", "replay", str(path), "--json")
    assert answer.returncode == 1 and len(answer.stdout.splitlines()) == 3
    note, error = answer.stderr.splitlines()
    assert "breaks off" in note and "left out: line 3" in error
    foreign = tmp_path / "foreign"
    foreign.write_text("hello\n")
    answer = ork("board", "replay", str(foreign))
    assert answer.returncode == 1 and len(answer.stderr.splitlines()) == 1 and "no recording" in answer.stderr
    assert ork("board", "replay", str(tmp_path / "none")).returncode == 2


def test_watch_can_carry_the_kernel_log() -> None:
    answer = ork(
        "board", "watch", "--target", "sim", "--json", "--kernel-log", "--count", "2", "--interval", "0.1"
    )
    first, second = (json.loads(line)["data"] for line in answer.stdout.splitlines())
    assert any("Initialized rknpu" in record for record in first["records"])
    assert "records" not in second
    assert ork("board", "watch", "--target", "sim", "--kernel-log").returncode == 2
