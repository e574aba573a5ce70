"""Guarded operations stopped by signals at every kind of place, on the simulated board: named afterwards, and resumed."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from orkbench_tui import locations, target
from orkbench_tui.cli.main import run
from orkbench_tui.ops.disk import HostDisk, files_below, tree_digest
from orkbench_tui.ops.guard.journal import history
from tests.conftest import ork

SIM = ("--target", "sim")
NO_TERMINAL = {"stdin": subprocess.DEVNULL}
CODES = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129, signal.SIGKILL: -9}

_PROGRAM = """
import os, sys, time
from orkbench_tui.ops.guard import effects
from orkbench_tui.cli import main
record, number = effects.BoardEffects.record, 0
def stopped(self, journal, line):
    global number
    number += 1
    if number == {at} and {before}:
        {act}
    record(self, journal, line)
    if number == {at} and not {before}:
        {act}
effects.BoardEffects.record = stopped
sys.argv = ["ork", *{words!r}]
main.main()
"""


def _program(words: tuple[str, ...], at: int, act: str, *, before: bool = False) -> list[str]:
    """``ork`` that does ``act`` before or after it writes a line of the journal, the first being 1."""
    program = _PROGRAM.format(words=(*words, *SIM), at=at, act=act, before=before)
    return [sys.executable, "-c", program]


def _stopped(words: tuple[str, ...], number: int, at: int, *, before: bool = False) -> str:
    """Run it, signalled there; what it said."""
    act = f"os.kill(os.getpid(), {int(number)}); time.sleep(10)"
    done = subprocess.run(
        _program(words, at, act, before=before),
        capture_output=True, text=True, timeout=60, check=False, **NO_TERMINAL,
    )  # fmt: skip
    assert done.returncode == CODES[signal.Signals(number)], done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr


def _said(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    capsys.readouterr()
    assert run([*words, *SIM]) == code
    return " ".join(capsys.readouterr().out.split())


def _data(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    return json.loads(_said(capsys, *words, "--json"))


def _governors(capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    facts = _data(capsys, "board", "governors", "--dry-run")["data"]["facts"]
    return {name: str(text).split(" at ")[0] for name, text in facts.items()}


def _named_everywhere(capsys: pytest.CaptureFixture[str], operation: str) -> None:
    """The journal is readable, and who looks at the board is told."""
    assert [one.operation for one in history(locations.state_dir()) if one.open] == [operation]
    capsys.readouterr()
    assert run(["board", "journal"]) == 0
    assert "interrupted" in capsys.readouterr().out
    told = f"{operation} was interrupted: run `ork board resume`"
    assert told in _said(capsys, "board", "status")
    assert told in _said(capsys, "board", "diagnose")
    for command in ("status", "diagnose"):
        warnings = _data(capsys, "board", command)["warnings"]
        assert {"id": "operation.interrupted", "msg": told} in warnings


def _not_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert not [one for one in history(locations.state_dir()) if one.open]
    for command in ("status", "diagnose"):
        assert "resume" not in _said(capsys, "board", command)


@pytest.mark.parametrize(
    ("number", "at", "early"),
    [
        (signal.SIGINT, 2, False),
        (signal.SIGINT, 3, True),
        (signal.SIGTERM, 4, False),
        (signal.SIGHUP, 4, False),
        (signal.SIGHUP, 1, False),
        (signal.SIGKILL, 5, True),
    ],
)
def test_stopped_between_nodes_it_is_named_and_resumed(
    number: int, at: int, early: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    before = _governors(capsys)
    said = _stopped(("board", "governors", "--yes"), number, at, before=early)
    assert ("`ork board resume`" in said) == (number != signal.SIGKILL)
    _named_everywhere(capsys, "governors")
    _said(capsys, "board", "resume")
    _not_named(capsys)
    assert _governors(capsys) == before


def _boot_disk() -> dict[str, str | None]:
    """Everything on the simulated board's disk, but for what guarded operations note of themselves."""
    status = target.simulator().status()
    assert status is not None and status.disk is not None
    disk = HostDisk(str(status.disk))
    seen: dict[str, str | None] = {}
    for top in ("/boot", "/lib/modules", "/etc", "/var"):
        if disk.kind(top) is not None:
            seen[top] = tree_digest(files_below(disk, top))
    return seen


@pytest.mark.parametrize(
    ("number", "at", "before"),
    [(signal.SIGINT, 2, False), (signal.SIGHUP, 12, False), (signal.SIGTERM, 31, False),
     (signal.SIGKILL, 4, True)],
)  # fmt: skip
def test_a_deploy_stopped_in_the_middle_is_named_and_taken_back(
    number: int,
    at: int,
    before: bool,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    room = tmp_path / "tmp"
    room.mkdir()
    monkeypatch.setenv("TMPDIR", str(room))
    monkeypatch.setattr("tempfile.tempdir", str(room))
    assert ork("sim", "start").returncode == 0
    kernel = str(tmp_path / "k")
    assert ork("sim", "kernel", kernel).returncode == 0
    disk = _boot_disk()
    _stopped(("kernel", "deploy", kernel, "--yes", "--i-know", "kernel-deploy"), number, at, before=before)
    left = [path.name for path in room.iterdir()]
    assert len(left) == (number == signal.SIGKILL) and all(name.startswith("ork-kernel-") for name in left)
    _named_everywhere(capsys, "kernel-deploy")
    assert run(["board", "resume", *SIM]) == 0
    told = capsys.readouterr().err
    assert all(name in told for name in left) and ("killed" in told) == bool(left)
    _not_named(capsys)
    assert list(room.iterdir()) == [] and _boot_disk() == disk
    assert run(["kernel", "deploy", kernel, "--yes", "--i-know", "kernel-deploy", *SIM]) == 0


def test_a_terminal_that_goes_away_leaves_what_resume_takes_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = _governors(capsys)
    reached = tmp_path / "half-way"
    words = _program(("board", "governors", "--yes"), 4, f"open({str(reached)!r}, 'w'); time.sleep(30)")
    child, terminal = pty.fork()
    if child == 0:
        os.execv(words[0], words)
    until = time.monotonic() + 30
    while not reached.exists() and time.monotonic() < until:
        time.sleep(0.02)
    # As sshd does when the connection is lost: the kernel sends SIGHUP, and nobody reads any more.
    os.close(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 129
    _named_everywhere(capsys, "governors")
    _said(capsys, "board", "resume")
    _not_named(capsys)
    assert _governors(capsys) == before


def test_nohup_lets_an_operation_outlive_its_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    act = f"os.kill(os.getpid(), {int(signal.SIGHUP)})"
    done = subprocess.run(
        _program(("board", "governors", "--yes"), 4, act),
        capture_output=True, text=True, timeout=60, check=False, **NO_TERMINAL,
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN) and None,
    )  # fmt: skip
    assert done.returncode == 0 and "governors" not in done.stderr
    _not_named(capsys)


def test_one_that_is_at_work_is_not_called_interrupted(capsys: pytest.CaptureFixture[str]) -> None:
    words = _program(("board", "governors", "--yes"), 4, "print('half way', flush=True); sys.stdin.read()")
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        while "half way" not in process.stdout.readline():
            pass
        assert [one.open for one in history(locations.state_dir())] == [True]
        for command in ("status", "diagnose"):
            assert "resume" not in _said(capsys, "board", command)
        assert run(["board", "resume", *SIM]) == 5
    finally:
        process.communicate("")
    assert process.returncode == 0
    _not_named(capsys)


def test_a_resume_that_is_stopped_is_named_and_the_next_one_ends_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    before = _governors(capsys)
    _stopped(("board", "governors", "--yes"), signal.SIGKILL, 6)
    assert "`ork board resume`" in _stopped(("board", "resume"), signal.SIGTERM, 2)
    _named_everywhere(capsys, "governors")
    _said(capsys, "board", "resume")
    _not_named(capsys)
    assert _governors(capsys) == before


def test_a_recovery_that_is_stopped_names_resume(capsys: pytest.CaptureFixture[str]) -> None:
    assert ork("sim", "start").returncode == 0
    assert ork("sim", "fault", "set", "busy-other-process").returncode == 0
    said = _stopped(("board", "recover", "--yes", "--i-know", "recover"), signal.SIGINT, 2)
    assert "`ork board resume`" in said
    (one,) = [one for one in history(locations.state_dir()) if one.open]
    assert f"{one.operation} was interrupted" in _said(capsys, "board", "status")
    assert "recover" in _said(capsys, "board", "resume")
    assert ork("board", "recover", "--yes", "--i-know", "recover", *SIM, **NO_TERMINAL).returncode == 0
    assert not [one for one in history(locations.state_dir()) if one.open]
