"""The board over its socket: several clients, broken clients, and a board that dies."""

from __future__ import annotations

import errno
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from orkbench_tui.driver import uapi
from orkbench_tui.ops.files import Access
from orkbench_tui.sim import lifecycle
from orkbench_tui.sim.client import SimBoardFiles, SimDevice
from tests.sim.board_client import Client, matmul
from tests.sim.test_kernel_jobs import _errno


@pytest.fixture
def path(runtime_dir: Path) -> Path:
    return lifecycle.start().socket_path


def test_a_job_over_the_socket_equals_numpy(path: Path) -> None:
    client = Client(SimDevice(path))
    work = matmul(client, 33, 288, 320)
    answer = client.submit(work.tasks, 1)
    assert answer.hw_elapse_time > 0
    assert np.array_equal(work.result(), work.expected)


def test_coherence_holds_across_the_socket(path: Path) -> None:
    client = Client(SimDevice(path))
    work = matmul(client, 4, 32, 32)
    client.submit(work.tasks, 1)
    assert not work.result(sync=False).any()
    assert np.array_equal(work.result(), work.expected)


def test_two_clients_and_many_threads_share_the_board(path: Path) -> None:
    devices = [SimDevice(path), SimDevice(path)]
    failures: list[str] = []

    def use(device: SimDevice, core: int, seed: int) -> None:
        client = Client(device)
        for round_ in range(6):
            work = matmul(client, 16, 96, 64, seed=100 * seed + round_)
            client.submit(work.tasks, 1, core_mask=1 << core)
            if not np.array_equal(work.result(), work.expected):
                failures.append(f"core {core}, seed {seed}, round {round_}")

    threads = [
        threading.Thread(target=use, args=(device, core, 3 * index + core))
        for index, device in enumerate(devices)
        for core in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert failures == []
    status = lifecycle.status()
    assert status is not None
    assert status.jobs_done == 36
    assert status.open_files == 2


def test_a_closed_client_frees_its_buffers(path: Path) -> None:
    device = SimDevice(path)
    Client(device).allocate(1 << 20)
    assert lifecycle.status().npu_bytes == 1 << 20
    device.close()
    assert _until(lambda: lifecycle.status().npu_bytes == 0)
    assert _errno(lambda: Client(device).action(1)) == errno.ENODEV


def _until(condition, seconds: float = 10) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.01)
    return False


_DYING_CLIENT = """
import os, sys, threading
from orkbench_tui.sim.client import SimDevice
from tests.sim.board_client import Client, matmul
client = Client(SimDevice(sys.argv[1]))
work = matmul(client, 4, 32, 32)
client.set_task(work.tasks, 0, int_mask=0xC00)
threading.Timer(0.3, lambda: os.kill(os.getpid(), 9)).start()
print("submitting", flush=True)
client.submit(work.tasks, 1, timeout=700)
"""


def test_a_client_that_dies_in_a_job_leaves_nothing_behind(runtime_dir: Path) -> None:
    path = lifecycle.start(pace="real").socket_path
    root = Path(__file__).parents[2]
    process = subprocess.Popen(
        [sys.executable, "-c", _DYING_CLIENT, str(path)], stdout=subprocess.PIPE, cwd=root, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "submitting\n"
    assert process.wait(10) == -signal.SIGKILL
    assert lifecycle.status().npu_bytes > 0, "the job's buffers went before the job was over"
    assert _until(lambda: lifecycle.status().npu_bytes == 0)
    client = Client(SimDevice(path))
    work = matmul(client, 4, 32, 32)
    client.submit(work.tasks, 1)
    assert np.array_equal(work.result(), work.expected)


def test_a_killed_board_is_enodev_at_once_for_calls_running_and_to_come(runtime_dir: Path) -> None:
    status = lifecycle.start(pace="real")
    device, files = SimDevice(status.socket_path), SimBoardFiles(status.socket_path)
    client = Client(device)
    work = matmul(client, 4, 32, 32)
    client.set_task(work.tasks, 0, int_mask=0xC00)
    outcome: list[int | None] = []
    thread = threading.Thread(
        target=lambda: outcome.append(_errno(lambda: client.submit(work.tasks, 1, timeout=60_000)))
    )
    thread.start()
    assert _until(lambda: lifecycle.status().open_files == 1)
    time.sleep(0.1)
    os.kill(status.pid, signal.SIGKILL)
    thread.join(5)
    assert outcome == [errno.ENODEV]
    for _ in range(3):
        assert _errno(lambda: client.action(1)) == errno.ENODEV
        assert _errno(lambda: files.read("/proc/stat")) == errno.ENODEV
    assert _errno(lambda: SimDevice(status.socket_path)) == errno.ENODEV
    work.memory_a.view[0] = 1
    again = lifecycle.start()
    assert again.pid != status.pid
    assert Client(SimDevice(again.socket_path)).action(1) == 908


def test_errors_keep_their_errno_and_the_structure(path: Path) -> None:
    client = Client(SimDevice(path))
    assert _errno(lambda: client.allocate(0)) == errno.EINVAL
    assert _errno(lambda: client.device.mmap(0, 4096)) == errno.EINVAL
    memory = client.allocate(4096)
    offset = client.call(uapi.RKNPU_MEM_MAP, uapi.MemMap(handle=memory.handle)).offset
    assert _errno(lambda: client.device.mmap(offset, 8192)) == errno.EINVAL
    argument = bytearray(uapi.DrmVersion())
    client.device.ioctl(uapi.DRM_IOCTL_VERSION, argument)
    assert uapi.DrmVersion.from_buffer_copy(argument).version_minor == 9


def test_files_over_the_socket(path: Path) -> None:
    files = SimBoardFiles(path)
    paths = ["/proc/device-tree/model", "/nothing", "", "/proc/stat", "/proc/device-tree/model"]
    readings = files.read_many(paths)
    assert [reading.path for reading in readings] == paths
    absent, present = Access.ABSENT, Access.PRESENT
    assert [r.access for r in readings] == [present, absent, absent, present, present]
    assert readings[0].data == readings[4].data == b"Radxa ROCK 5B\0"
    assert files.list("/sys/kernel/debug/rknpu") == [
        "delayms",
        "freq",
        "load",
        "power",
        "reset",
        "version",
        "volt",
    ]
    assert files.readlink("/sys/class/drm/card1") == "../../devices/platform/fdab0000.npu/drm/card1"
    assert files.readlink("/proc/stat") is None
    last = len(files.kernel_log()) - 1
    assert files.kernel_log(last) == []
    Client(SimDevice(path)).action(6)
    (line,) = files.kernel_log(last)
    assert line.endswith(b",-;RKNPU: soft reset, num: 6\n")


_HEADER = struct.Struct("<IIqq")


@pytest.mark.parametrize(
    "data",
    [
        b"\xff" * 24,
        _HEADER.pack(0, 99, 0, 0),
        _HEADER.pack(5, 1, 0, 0) + b"[1,2]",
        _HEADER.pack(4, 1, 0, 0) + b"\xff\xfe{}",
        _HEADER.pack(8, 3, 0xC0086440, 0) + bytes(8),
        _HEADER.pack(0, 4, 1 << 40, -5),
        _HEADER.pack(100, 3, 0, 0) + b"short",
        b"GET / HTTP/1.1\r\n\r\n",
        b"",
    ],
)
def test_a_malformed_client_harms_only_itself(path: Path, data: bytes) -> None:
    good = Client(SimDevice(path))
    with socket.socket(socket.AF_UNIX) as bad:
        bad.settimeout(5)
        bad.connect(str(path))
        bad.sendall(data)
        bad.shutdown(socket.SHUT_WR)
        while bad.recv(4096):
            pass
    assert good.action(1) == 908
    assert Client(SimDevice(path)).action(1) == 908
    broken = data and (len(data) < 24 or data[0] == 0xFF or data.endswith(b"short"))
    log = lifecycle.log_path().read_text()
    assert (f"process {os.getpid()} is cut off: " in log) == bool(broken), log


def test_random_ioctls_never_kill_the_board(path: Path) -> None:
    import random

    chooser = random.Random(5)
    device = SimDevice(path)
    for _ in range(300):
        number = chooser.choice([0x00, 0x09, 0x40, 0x42, 0x43, 0x44, 0x45, 0x2D, chooser.randrange(256)])
        size = chooser.choice([0, 1, 8, 16, 32, 48, 64, 104])
        request = 0xC000_6400 | size << 16 | number
        if request == uapi.DRM_IOCTL_VERSION:
            continue  # its pointers are the caller's own business
        content = bytearray(chooser.randbytes(size) if chooser.random() < 0.5 else bytes(size))
        try:
            device.ioctl(request, content)
        except OSError as error:
            assert error.errno != errno.ENODEV
    assert Client(device).action(1) == 908


def test_a_socket_that_is_no_board_is_enodev(runtime_dir: Path) -> None:
    assert _errno(lambda: SimDevice(runtime_dir / "nothing.sock")) == errno.ENODEV
