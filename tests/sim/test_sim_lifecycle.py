"""Starting, finding and stopping the simulated board."""

from __future__ import annotations

import json
import os
import signal
import stat
import threading
import time
from pathlib import Path

import pytest

from orkbench_tui.cli.main import run
from orkbench_tui.errors import BusyError, NoDeviceError, UsageError
from orkbench_tui.ops.files import detail_of
from orkbench_tui.sim import lifecycle
from orkbench_tui.sim.client import SimBoardFiles, SimDevice
from tests.sim.test_sim_server import _until


def test_start_is_idempotent_and_stop_ends_it(runtime_dir: Path) -> None:
    assert lifecycle.status() is None
    first = lifecycle.start()
    assert lifecycle.start(pace="real") == _same_board(first)
    assert lifecycle.stop() is True
    assert lifecycle.status() is None
    assert not lifecycle.socket_path().exists()
    assert lifecycle.stop() is False


def _same_board(first: lifecycle.SimStatus) -> object:
    class Same:
        def __eq__(self, other: object) -> bool:
            return isinstance(other, lifecycle.SimStatus) and (other.pid, other.pace) == (first.pid, "fast")

    return Same()


def test_the_folder_is_closed_to_others(runtime_dir: Path) -> None:
    lifecycle.start()
    assert stat.S_IMODE(lifecycle.folder().stat().st_mode) == 0o700
    assert stat.S_IMODE(lifecycle.socket_path().stat().st_mode) == 0o600


def test_many_starters_get_one_board(runtime_dir: Path) -> None:
    pids: list[int] = []
    threads = [threading.Thread(target=lambda: pids.append(lifecycle.start().pid)) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(pids) == 6
    assert len(set(pids)) == 1


def test_a_board_nobody_uses_stops_by_itself(runtime_dir: Path) -> None:
    status = lifecycle.start(idle_s=0.5)
    device = SimDevice(status.socket_path)
    time.sleep(1.0)
    assert lifecycle.status() is not None, "it stopped under a client"
    device.close()
    assert _until(lambda: lifecycle.status() is None)
    assert not lifecycle.socket_path().exists()


def test_what_a_killed_board_left_is_cleaned_up(runtime_dir: Path) -> None:
    first = lifecycle.start()
    os.kill(first.pid, signal.SIGKILL)
    assert _until(lambda: not lifecycle._lives())
    assert lifecycle.status() is None
    assert lifecycle.socket_path().exists()
    assert lifecycle.stop() is False
    assert lifecycle.start().pid != first.pid


def test_sigterm_is_a_clean_end(runtime_dir: Path) -> None:
    status = lifecycle.start()
    os.kill(status.pid, signal.SIGTERM)
    assert _until(lambda: not lifecycle._lives())
    assert not lifecycle.socket_path().exists()
    assert lifecycle.log_path().read_text().endswith("stopped\n")


def test_a_board_that_does_not_answer_is_ended_by_stop(
    runtime_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from orkbench_tui.sim import client

    status = lifecycle.start()
    monkeypatch.setattr(client, "CONNECT_TIMEOUT_S", 0.2)
    os.kill(status.pid, signal.SIGSTOP)
    assert lifecycle.stop() is True


def test_an_old_board_is_replaced_unless_it_is_used(
    runtime_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = lifecycle.start()
    device = SimDevice(old.socket_path)
    monkeypatch.setattr(lifecycle, "VERSION", "99.0")
    monkeypatch.setattr(lifecycle, "_launch", lambda *_: "launched")
    with pytest.raises(BusyError, match="1 programs use it"):
        lifecycle.start()
    device.close()
    assert _until(lambda: lifecycle.status().clients == 0)
    assert lifecycle.start() == "launched"
    assert lifecycle.status() is None


def test_a_board_that_cannot_start_says_why(runtime_dir: Path) -> None:
    lifecycle.folder().mkdir(parents=True)
    lifecycle.socket_path().mkdir()
    with pytest.raises(NoDeviceError, match="does not start") as caught:
        lifecycle.start()
    assert "Error" in caught.value.why
    assert str(lifecycle.log_path()) in caught.value.do


def test_pace_changes_while_it_runs(runtime_dir: Path) -> None:
    with pytest.raises(NoDeviceError):
        lifecycle.set_pace("real")
    files = SimBoardFiles(lifecycle.start().socket_path)
    assert detail_of(files) == "fast"
    assert lifecycle.set_pace("real").pace == "real"
    assert detail_of(files) == "real"
    files.close()
    with pytest.raises(UsageError):
        lifecycle.set_pace("slow")


def test_ork_sim(runtime_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["sim", "status"]) == 3
    assert capsys.readouterr().out == "no simulated board runs\n"
    assert run(["sim", "status", "--json"]) == 3
    assert json.loads(capsys.readouterr().out)["data"] == {"running": False}
    assert run(["sim", "start"]) == 0
    assert capsys.readouterr().out.startswith("simulated board: pid ")
    assert run(["sim", "start", "--pace", "real", "--json"]) == 0
    started = json.loads(capsys.readouterr().out)
    assert started["schema"] == "ork.sim.status/1"
    assert started["data"]["pace"] == "real"
    assert run(["sim", "status", "--json"]) == 0
    status = json.loads(capsys.readouterr().out)["data"]
    assert status["pid"] == started["data"]["pid"]
    assert {"uptime_s", "clients", "jobs_done", "socket_path", "version"} <= set(status)
    assert run(["sim", "stop"]) == 0
    assert capsys.readouterr().out == "simulated board: stopped\n"
    assert run(["sim", "stop", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["data"] == {"stopped": False}
    assert run(["sim", "start", "--pace", "slow"]) == 2
