"""Other boards over a program that stands for ssh."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from orkbench_tui.errors import ExitCode, UnreachableError, UsageError
from orkbench_tui.ops.remote.fleet import Fleet
from orkbench_tui.ops.remote.link import Condition, pause_after
from orkbench_tui.ops.remote.ssh_command import checked_host, watch_command
from orkbench_tui.settings import Settings
from tests.ops.fake_board import FakeBoard, kmsg, sample_text
from tests.ops.remote.fake_ssh import FakeSsh
from tests.ops.test_sample_stream import taken


@pytest.fixture
def ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeSsh:
    fake = FakeSsh(tmp_path / "bin")
    monkeypatch.setenv("PATH", fake.path)
    return fake


def stream(tmp_path: Path, many: int = 2, *, storm: bool = False) -> list[str]:
    board = FakeBoard()
    if storm:
        board.log += kmsg(sample_text("dmesg-reset-storm.txt"), len(board.log))
    return [line.decode() for _, line in taken(board, tmp_path, many)]


def soon(_failures: int) -> float:
    return 0.05


def fleet(*hosts: str, pause: Callable[[int], float] = soon) -> Fleet:
    return Fleet(hosts, Settings(), 1.0, pause=pause)


def until(boards: Fleet, index: int, condition: Condition, timeout_s: float = 20.0) -> None:
    end_s = time.monotonic() + timeout_s
    while boards.states()[index].condition is not condition:
        assert time.monotonic() < end_s, boards.states()[index]
        time.sleep(0.01)


@pytest.mark.parametrize(
    "host", ["-oProxyCommand=touch x", "--", "-", "", "a b", "a;b", "$(x)", "a\n", "`x`", "a'b", "x" * 300]
)
def test_what_is_no_host_is_refused(host: str) -> None:
    with pytest.raises(UsageError):
        checked_host(host)


@pytest.mark.parametrize(
    "host", ["rock-5b", "root@rock.local", "10.0.0.7", "fe80::1%eth0", "ssh://a@b:22", "_x"]
)
def test_hosts_as_ssh_knows_them(host: str) -> None:
    assert checked_host(host) == host


def test_the_command_reads_and_asks_nothing() -> None:
    words = watch_command("rock-5b", Settings(remote_ork="/opt/ork/bin/ork"), 1.0)
    assert words[:4] == ("ssh", "-T", "-o", "BatchMode=yes")
    after = words[words.index("rock-5b") :]
    assert after[:5] == ("rock-5b", "--", "/opt/ork/bin/ork", "board", "watch")
    # A machine without an NPU must not start a simulated board because somebody looks at it.
    assert after[after.index("--target") + 1] == "board"


def test_samples_of_another_board(ssh: FakeSsh, tmp_path: Path) -> None:
    lines = stream(tmp_path, 3, storm=True)
    ssh.answers("rock", ("out", "Welcome!\n\x1b[31m\n"), *(("out", line) for line in lines), ("sleep", 60))
    with fleet("rock") as boards:
        feed = boards.feed("rock")
        sample = feed.sample()
        while len(feed.past()) < 3:
            sample = feed.sample()
        assert sample.source == "board" and sample.source_detail == "at rock"
        assert sample.identity.model == "Radxa ROCK 5B" and sample.log.facts.resets == 4
        assert boards.states()[0].condition is Condition.LIVE
    assert ssh.calls()[0] == list(watch_command("rock", Settings(), 1.0))[1:]


def test_a_dropped_line_is_told_and_taken_up_again(ssh: FakeSsh, tmp_path: Path) -> None:
    lines = stream(tmp_path)
    drop = ("err", "noise\nConnection to rock closed by remote host.\x1b[2J\n")
    ssh.answers("rock", ("out", lines[0]), ("sleep", 1.0), ("out", lines[1][:100]), drop, ("exit", 255))
    with fleet("rock", pause=lambda _: 0.5) as boards:
        feed = boards.feed("rock")
        feed.sample()
        with pytest.raises(UnreachableError, match="closed by remote host") as caught:
            feed.sample()
        # Whoever asks anew is not given the old sample as a new one.
        with pytest.raises(UnreachableError):
            boards.feed("rock").sample()
        assert caught.value.exit_code is ExitCode.UNREACHABLE and "\x1b" not in caught.value.line()
        state = boards.states()[0]
        assert state.sample is not None and state.seen_unix_s is not None
        ssh.answers("rock", *(("out", line) for line in lines), ("sleep", 60))
        until(boards, 0, Condition.LIVE)
        assert boards.states()[0].tries >= 2 and feed.sample().source == "board"


@pytest.mark.parametrize(
    ("steps", "words"),
    [
        ((("err", "ssh: Could not resolve hostname rock\n"), ("exit", 255)), "Could not resolve"),
        ((("err", "bash: ork: command not found\n"), ("exit", 127)), "remote_ork"),
        ((("err", "no rknpu NPU on this machine\n"), ("exit", 3)), "no rknpu NPU"),
        ((("exit", 0),), "exit code 0"),
        ((("out", "hello\n" * 300), ("sleep", 60)), "no samples come"),
        ((("out", '{"data": {"unix_s": "now"}}\n' * 300), ("sleep", 60)), "no samples come"),
    ],
)
def test_why_a_board_is_not_reached(
    ssh: FakeSsh, steps: tuple[tuple[str, str | float], ...], words: str
) -> None:
    ssh.answers("rock", *steps)
    with fleet("rock", pause=lambda _: 60.0) as boards, pytest.raises(UnreachableError, match=words):
        boards.feed("rock").sample()


def test_one_dead_board_does_not_hold_up_another(ssh: FakeSsh, tmp_path: Path) -> None:
    ssh.answers("dead", ("sleep", 60))
    ssh.answers("down", ("exit", 255))
    ssh.answers("rock", *(("out", line) for line in stream(tmp_path)), ("sleep", 60))
    with fleet("dead", "down", "rock", "rock") as boards:
        until(boards, 2, Condition.LIVE)
        until(boards, 1, Condition.UNREACHABLE)
        assert [state.host for state in boards.states()] == ["dead", "down", "rock"]
        assert boards.states()[0].condition is Condition.CONNECTING


def test_without_ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with (
        fleet("rock", pause=lambda _: 60.0) as boards,
        pytest.raises(UnreachableError, match="ssh: No such file"),
    ):
        boards.feed("rock").sample()


def test_pauses_grow_to_a_minute() -> None:
    assert [pause_after(n) for n in (1, 2, 3, 6, 7, 8, 1000)] == [1, 2, 4, 32, 60, 60, 60]


def test_closing_ends_every_ssh(ssh: FakeSsh) -> None:
    ssh.answers("a", ("sleep", 600))
    boards = fleet("a")
    with boards:
        end_s = time.monotonic() + 20
        while not ssh.calls():
            assert time.monotonic() < end_s
            time.sleep(0.01)
    assert not boards._thread.is_alive()
    with pytest.raises(UnreachableError):
        boards.feed("a").sample()
