"""``ork board status --board HOST``."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from tests.conftest import ork
from tests.ops.fake_board import FakeBoard
from tests.ops.remote.fake_ssh import FakeSsh
from tests.ops.test_sample_stream import taken


def test_status_of_another_board(tmp_path: Path) -> None:
    ssh = FakeSsh(tmp_path / "bin")
    board = FakeBoard()
    board.files["/sys/kernel/debug/rknpu/load"] = "NPU load:  Core0: 42%, Core1:  7%, Core2:  0%,\n"
    lines = [line.decode() for _, line in taken(board, tmp_path)]
    ssh.answers("rock", *(("out", line) for line in lines), ("sleep", 60))
    ssh.answers("gone", ("err", "Connection timed out\n"), ("exit", 255))
    environment = {**os.environ, "PATH": ssh.path}
    page = ork("board", "status", "--board", "rock", env=environment)
    assert page.returncode == 0, page.stderr
    assert "source       board, at rock, kernel 6.1.115-vendor-rk35xx" in page.stdout
    document = json.loads(ork("board", "status", "--board", "rock", "--json", env=environment).stdout)
    assert document["source"] == "board" and document["data"]["board"]["model"] == "Radxa ROCK 5B"
    gone = ork("board", "status", "--board", "gone", env=environment)
    assert gone.returncode == 11 and "Connection timed out" in gone.stderr
    assert len(gone.stderr.splitlines()) == 1


def test_what_is_no_host_never_reaches_ssh(tmp_path: Path) -> None:
    ssh = FakeSsh(tmp_path / "bin")
    environment = {**os.environ, "PATH": ssh.path}
    answer = ork("board", "status", "--board=-oProxyCommand=x", env=environment)
    assert answer.returncode == 2 and not ssh.calls()
    assert ork("board", "status", "--board", "rock", "--target", "sim", env=environment).returncode == 2


def test_a_real_stream_of_ork_itself(tmp_path: Path) -> None:
    ssh = tmp_path / "ssh"
    ssh.write_text(
        '#!/bin/sh\nwhile [ "$1" != "--" ]; do shift; done\nshift\n'
        f'[ "$1" = ork ] || exit 127\nshift\nexec {sys.executable} -m orkbench_tui.cli.main "$@"\n'
    )
    ssh.chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    assert ork("sim", "start").returncode == 0
    shown = ork("board", "status", "--board", "rock", env={**environment, "ORK_REMOTE_TARGET": "sim"})
    assert shown.returncode == 0, shown.stderr
    assert "the simulated board, pace fast at rock" in shown.stdout and "NPU load     core 0" in shown.stdout
    # A machine without an NPU says so; it does not become a simulated board by being looked at.
    none = ork("board", "status", "--board", "rock", env={**environment, "ORK_BOARD_ROOT": str(tmp_path)})
    assert none.returncode == 11 and "no rknpu NPU on this machine" in none.stderr
    lost = ork("board", "status", "--board", "rock", env={**environment, "ORK_REMOTE_ORK": "/opt/ork"})
    assert lost.returncode == 11 and "remote_ork" in lost.stderr


def test_watch_and_record_another_board(tmp_path: Path) -> None:
    ssh = FakeSsh(tmp_path / "bin")
    lines = [line.decode() for _, line in taken(FakeBoard(), tmp_path, 3)]
    ssh.answers("rock", *(("out", line) for line in lines), ("sleep", 60))
    ssh.answers("gone", ("err", "Connection timed out\n"), ("exit", 255))
    environment = {**os.environ, "PATH": ssh.path}
    text = ork(
        "board", "watch", "--board", "rock", "--count", "3", "--interval", "2", "--alerts", env=environment
    )
    assert text.returncode == 0, text.stderr
    assert text.stdout.splitlines()[0] == "source: board, at rock" and len(text.stdout.splitlines()) == 5
    assert ssh.calls()[0][-2:] == ["--interval", "2"]
    stream = ork(
        "board", "watch", "--board", "rock", "--count", "2", "--json", "--kernel-log", env=environment
    )
    documents = [json.loads(line) for line in stream.stdout.splitlines()]
    assert [document["data"]["seq"] for document in documents] == [0, 1]
    assert documents[0]["data"]["records"] and "records" not in documents[1]["data"]
    assert {document["data"]["source_detail"] for document in documents} == {"at rock"}
    plain = ork("board", "watch", "--board", "rock", "--count", "1", "--json", env=environment)
    assert "records" not in json.loads(plain.stdout)["data"]

    path = tmp_path / "there.rec.gz"
    made = ork("board", "record", str(path), "--board", "rock", "--count", "3", env=environment)
    assert made.returncode == 0 and made.stdout.startswith("3 samples in ")
    back = [json.loads(line) for line in ork("board", "replay", str(path), "--json").stdout.splitlines()]
    assert [item["data"]["unix_s"] for item in back] == [json.loads(line)["data"]["unix_s"] for line in lines]
    assert back[0]["data"]["records"] == json.loads(lines[0])["data"]["records"]
    ghost = tmp_path / "ghost.rec"
    for words in (("watch",), ("record", str(ghost))):
        gone = ork("board", *words, "--board", "gone", env=environment)
        assert gone.returncode == 11 and "Connection timed out" in gone.stderr and gone.stdout == ""
        both = ork("board", *words, "--board", "rock", "--target", "sim", env=environment)
        assert both.returncode == 2 and "exclude each other" in both.stderr
    assert not ghost.exists()
