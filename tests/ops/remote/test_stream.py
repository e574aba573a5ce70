"""Every sample of another board, in order, over a program that stands for ssh."""

from __future__ import annotations

from pathlib import Path

import pytest

from orkbench_tui.errors import ExitCode, UnreachableError, UsageError
from orkbench_tui.ops.remote import stream as module
from orkbench_tui.ops.remote.link import Condition, LinkState
from orkbench_tui.ops.remote.stream import RemoteStream
from orkbench_tui.ops.telemetry.sample import Sample
from orkbench_tui.settings import Settings
from tests.ops.fake_board import FakeBoard, kmsg, sample_text
from tests.ops.remote.fake_ssh import FakeSsh
from tests.ops.test_sample_stream import taken


@pytest.fixture
def ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeSsh:
    fake = FakeSsh(tmp_path / "bin")
    monkeypatch.setenv("PATH", fake.path)
    return fake


def board_with_storm() -> FakeBoard:
    board = FakeBoard()
    board.log += kmsg(sample_text("dmesg-reset-storm.txt"), len(board.log))
    return board


def followed(told: list[str], pause_s: float = 0.3) -> RemoteStream:
    return RemoteStream("rock", Settings(), 1.0, told.append, pause=lambda _: pause_s)


def test_no_sample_and_no_record_is_left_out(ssh: FakeSsh, tmp_path: Path) -> None:
    lines = taken(board_with_storm(), tmp_path, 40)
    ssh.answers("rock", *(("out", line.decode()) for _, line in lines), ("sleep", 60))
    told: list[str] = []
    with followed(told) as stream:
        got = [stream.next() for _ in lines]
    assert [sample.unix_s for sample, _ in got] == [sample.unix_s for sample, _ in lines]
    assert len(got[0][1]) > 4 and not any(records for _, records in got[1:])
    assert got[-1][0].log.facts.resets == 4 and got[0][0].source_detail == "at rock" and not told


def test_a_lost_link_is_told_once_and_its_log_is_not_given_twice(ssh: FakeSsh, tmp_path: Path) -> None:
    board = board_with_storm()
    first = taken(board, tmp_path)[0][1]
    ssh.answers("rock", ("out", first.decode()), ("err", "Connection reset\n"), ("exit", 255))
    told: list[str] = []
    with followed(told) as stream:
        before = stream.next()[1]
        board.log += [b"6,9000,900000000,-;one more\n"]
        again = [line.decode() for _, line in taken(board, tmp_path)]
        ssh.answers("rock", *(("out", line) for line in again), ("sleep", 60))
        # The board may be tried once more before it has the new answer, and is then the same as before.
        records = []
        while not records:
            records = stream.next()[1]
        stream.next()
    assert before and records == [b"6,9000,900000000,-;one more\n"]
    assert told[0] == "rock does not answer: Connection reset; it is tried until it does"
    assert told[1] == "rock answers again"


def test_a_board_that_never_answered_is_an_error(ssh: FakeSsh) -> None:
    ssh.answers("rock", ("err", "No route to host\n"), ("exit", 255))
    told: list[str] = []
    with followed(told, 60.0) as stream, pytest.raises(UnreachableError, match="No route") as caught:
        stream.next()
    assert caught.value.exit_code is ExitCode.UNREACHABLE and not told
    with pytest.raises(UsageError):
        RemoteStream("-oProxyCommand=x", Settings(), 1.0, told.append)


def test_a_new_boot_has_a_log_of_its_own(tmp_path: Path) -> None:
    seen = module._NewRecords()
    one, two = b"6,5,1,-;a\n", b"6,6,2,-;b\n"
    assert seen.of("first", (one, two)) == [one, two] and seen.of("first", (one, two)) == []
    assert seen.of("second", (one,)) == [one]
    assert seen.of("second", (b"no record\n",)) == [b"no record\n"]


def test_what_nobody_reads_is_bounded_and_keeps_its_log(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(module, "_WAITING", 2)
    stream = followed([])
    sample: Sample = taken(FakeBoard(), tmp_path, 1)[0][0]
    for number in range(4):
        record = f"6,{number},{number},-;line {number}\n".encode()
        stream._heard(LinkState("rock", Condition.LIVE, sample, records=(record,)))
    kept = [stream.next()[1] for _ in range(2)]
    assert [len(records) for records in kept] == [3, 1]
    assert b"".join([*kept[0], *kept[1]]).count(b"line") == 4
    stream._fleet._loop.close()
