"""An operation that took the driver off and was killed: the board shows no NPU, and is still the one to resume on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orkbench_tui import locations, target
from orkbench_tui.cli.main import run
from orkbench_tui.errors import ExitCode
from orkbench_tui.ops.guard.declaration import Step
from orkbench_tui.ops.guard.journal import history

DRIVER = "sys/bus/platform/drivers/RKNPU"
DEVICE = "fdab0000.npu"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A board's files with the driver off its device and no card, and a rebind that has no end."""
    board = tmp_path / "board"
    (board / DRIVER).mkdir(parents=True)
    (board / DRIVER / "bind").touch()
    (board / DRIVER / "unbind").touch()
    boot = board / "proc/sys/kernel/random/boot_id"
    boot.parent.mkdir(parents=True)
    boot.write_text("b007\n")
    monkeypatch.setenv("ORK_BOARD_ROOT", str(board))
    monkeypatch.setattr(target, "BOARD_LOCK", tmp_path / "npu.lock")
    monkeypatch.setattr("orkbench_tui.ops.guard.verbs._BIND_AFTER_S", 0.0)
    place = f"/{DRIVER}/{DEVICE}"
    steps = (Step("unbind", place, "bound", "unbound"), Step("bind", place, None, "bound"))
    events = [
        {"event": "begin", "unix_s": 1.0, "version": 1, "id": "1-rebind", "operation": "rebind", "words": {},
         "host": "pi", "source": "board", "boot_id": "b007", "who": "me",
         "steps": [step.document() for step in steps]},
        {"event": "intent", "unix_s": 2.0, "step": 0, "found": "bound"},
    ]  # fmt: skip
    journal = locations.state_dir() / "journal" / "1-rebind.jsonl"
    journal.parent.mkdir(parents=True)
    journal.write_text("".join(json.dumps(event) + "\n" for event in events))
    return board


@pytest.mark.parametrize("chosen", ["auto", "board"])
def test_no_command_takes_the_simulated_board_instead(
    root: Path, chosen: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for words in (["board", "status"], ["npu", "info"], ["board", "governors", "--yes"]):
        assert run([*words, "--target", chosen]) == ExitCode.NO_DEVICE
        assert "rebind was interrupted; run `ork board resume`" in capsys.readouterr().err
    assert run(["board", "diagnose", "--target", chosen]) == ExitCode.UNHEALTHY
    assert "`ork board resume`" in capsys.readouterr().out
    assert run(["sim", "status"]) == ExitCode.NO_DEVICE


@pytest.mark.parametrize("chosen", ["auto", "board"])
def test_resume_works_on_the_board_all_the_same(
    root: Path, chosen: str, capsys: pytest.CaptureFixture[str]
) -> None:
    # Files do not bind a device by themselves: this driver never gets it back, and resume says so.
    assert run(["board", "resume", "--target", chosen]) == ExitCode.INCONSISTENT
    assert (root / DRIVER / "bind").read_text() == f"{DEVICE}\n"
    assert "reads 'unbound'" in capsys.readouterr().err
    assert [one.outcome for one in history(locations.state_dir())] == ["inconsistent"]


def test_once_the_driver_is_back_resume_ends_it(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (root / DRIVER / DEVICE).symlink_to("../../../../devices/platform")
    assert run(["board", "resume"]) == 0
    assert "rebind: rolled back" in capsys.readouterr().out
    assert target.board_unfinished() == ""


def test_without_one_a_machine_without_npu_gets_the_simulated_board(root: Path) -> None:
    for path in (locations.state_dir() / "journal").iterdir():
        path.unlink()
    assert run(["board", "status"]) == 0
    assert run(["sim", "status"]) == 0
