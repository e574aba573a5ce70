"""The simulated board in runtime folders that cannot take it, and asked things that are no requests."""

from __future__ import annotations

import shutil
import socket
import struct
import tempfile
import threading
import time
from pathlib import Path

import pytest

from orkbench_tui.driver import uapi
from orkbench_tui.driver.npu import Npu
from orkbench_tui.errors import DeniedError, InvalidFileError, NoDeviceError, NoMemoryError, UsageError
from orkbench_tui.ops.checks import exact_matmul
from orkbench_tui.sim import client, lifecycle
from orkbench_tui.sim.client import SimDevice
from orkbench_tui.sim.protocol import Operation, Reply
from orkbench_tui.sim.server import Server


@pytest.mark.parametrize("name", ["board.log", "start.lock", "board.pid"])
def test_a_folder_in_the_place_of_a_file_is_named(runtime_dir: Path, name: str) -> None:
    blocked = lifecycle.folder() / name
    blocked.mkdir(parents=True)
    with pytest.raises(InvalidFileError, match="remove or rename it") as found:
        lifecycle.start()
    assert str(blocked) in found.value.line()
    blocked.rmdir()


def test_a_file_in_the_place_of_the_folder_names_the_variable(runtime_dir: Path) -> None:
    (runtime_dir / "ork").write_text("")
    with pytest.raises((DeniedError, InvalidFileError), match=r"XDG_RUNTIME_DIR|remove or rename"):
        lifecycle.start()


def test_a_socket_path_too_long_for_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    place = Path(tempfile.mkdtemp(prefix="orksim-")) / ("x" * 100)
    place.mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(place))
    with pytest.raises(UsageError, match="set XDG_RUNTIME_DIR to a folder with a shorter path"):
        lifecycle.start()
    shutil.rmtree(place.parent)


@pytest.mark.parametrize(("full", "expected"), [(True, NoMemoryError), (False, NoDeviceError)])
def test_a_board_that_ends_without_a_word_on_a_full_disk(
    runtime_dir: Path, monkeypatch: pytest.MonkeyPatch, full: bool, expected: type[Exception]
) -> None:
    monkeypatch.setattr(lifecycle.sys, "executable", "/bin/false")
    monkeypatch.setattr(lifecycle, "_full", lambda place: full)
    with pytest.raises(expected):
        lifecycle.start()


def test_a_greeting_nested_without_end_is_refused(runtime_dir: Path) -> None:
    path = lifecycle.start().socket_path
    payload = b"[" * 100_000
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.connect(str(path))
        connection.sendall(struct.pack("<IIqq", len(payload), Operation.HELLO, 0, 0) + payload)
        _, error, _ = struct.unpack("<Iiq", connection.recv(16))
    assert error
    assert "Traceback" not in lifecycle.log_path().read_text()
    assert lifecycle.status() is not None


def test_memory_of_ended_programs_is_given_back(runtime_dir: Path) -> None:
    running = lifecycle.start()
    with Npu(SimDevice(running.socket_path)) as npu:
        assert exact_matmul(npu, 32, 4096, 4096).wrong == 0
    deadline = time.monotonic() + 10
    while (shared := _shared_kib(running.pid)) > 4096 and time.monotonic() < deadline:
        time.sleep(0.05)
    assert shared <= 4096


def _shared_kib(pid: int) -> int:
    """Memory of buffers: they are shared mappings."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("Pss_Shmem:")).split()[1])


def test_a_program_that_ends_waits_no_longer_for_a_job(
    runtime_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = runtime_dir / "slow.sock"
    server = Server(path, pace="fast", idle_s=60.0)
    never = threading.Event()

    def without_end(request: object, session: object) -> Reply:
        never.wait()
        return Reply(0, 0, b"")

    server._answers[Operation.IOCTL] = without_end
    ready = threading.Event()
    threading.Thread(target=server.serve, args=(ready.set,), daemon=True).start()
    assert ready.wait(10)
    monkeypatch.setattr(client, "_leaving", threading.Event())
    device = SimDevice(path)
    leaver = threading.Timer(0.2, client.leave)
    leaver.start()
    with pytest.raises(OSError, match="this program ends"):
        device.ioctl(uapi.RKNPU_ACTION, bytearray(uapi.Action()))
    with pytest.raises(OSError, match="is gone"):
        device.ioctl(uapi.RKNPU_ACTION, bytearray(uapi.Action()))
    never.set()
    server.stop()
