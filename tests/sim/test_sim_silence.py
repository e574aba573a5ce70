"""A simulated board that is stopped or loses its socket: nobody waits for ever, and everybody says the cure."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

import pytest

from orkbench_tui.driver import uapi
from orkbench_tui.errors import NoDeviceError
from orkbench_tui.sim import client, lifecycle
from orkbench_tui.sim.client import SimBoardFiles, SimDevice


def _stop(pid):
    """Stopped for certain: the signal is delivered some time after it was sent."""
    os.kill(pid, signal.SIGSTOP)
    while Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "T":
        time.sleep(0.01)


@pytest.fixture
def stopped(monkeypatch):
    """The pid of a board that was sent SIGSTOP after a device and its files were opened."""
    monkeypatch.setattr(client, "PATIENCE_S", 0.2)
    monkeypatch.setattr(client, "CONNECT_TIMEOUT_S", 0.3)
    monkeypatch.setattr(lifecycle, "SETTLE_TIMEOUT_S", 0.3)
    status = lifecycle.start()
    opened = SimDevice(status.socket_path), SimBoardFiles(status.socket_path)
    _stop(status.pid)
    yield opened
    os.kill(status.pid, signal.SIGCONT)
    lifecycle.stop()


def test_calls_into_a_stopped_board_end(stopped):
    device, files = stopped
    with pytest.raises(OSError, match="does not answer"):
        device.ioctl(uapi.RKNPU_ACTION, bytearray(uapi.Action(flags=1)))
    with pytest.raises(OSError, match="does not answer"):
        files.read("/proc/uptime")


def test_status_and_start_name_the_cure(stopped):
    for ask in (lifecycle.status, lifecycle.start):
        with pytest.raises(NoDeviceError, match="ork sim stop"):
            ask()


def test_a_board_whose_socket_is_gone_is_told_from_none(monkeypatch):
    monkeypatch.setattr(lifecycle, "SETTLE_TIMEOUT_S", 0.2)
    status = lifecycle.start()
    status.socket_path.unlink()
    with pytest.raises(NoDeviceError, match=f"pid {status.pid}"):
        lifecycle.status()
    assert lifecycle.stop()
    assert lifecycle.status() is None


def test_a_long_job_is_waited_for_while_the_board_answers(monkeypatch):
    monkeypatch.setattr(client, "PATIENCE_S", 0.1)
    status = lifecycle.start()
    device = SimDevice(status.socket_path)
    answered = []
    original = client.call_once

    def counted(*words, **more):
        answered.append(time.monotonic())
        return original(*words, **more)

    monkeypatch.setattr(client, "call_once", counted)
    _stop(status.pid)
    threading.Timer(0.35, os.kill, (status.pid, signal.SIGCONT)).start()
    argument = bytearray(uapi.Action(flags=1))
    device.ioctl(uapi.RKNPU_ACTION, argument)
    assert uapi.Action.from_buffer(argument).value == 908
    assert answered
    device.close()
    lifecycle.stop()
