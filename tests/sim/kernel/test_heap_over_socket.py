"""The dma-heap of a simulated board in a process of its own."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from orkbench_tui.driver import uapi
from orkbench_tui.sim import lifecycle
from orkbench_tui.sim.board_variant import BoardVariant
from orkbench_tui.sim.client import SimDevice, SimDmaHeap
from tests.sim import programs
from tests.sim.board_client import Client
from tests.sim.kernel.imports import chain, errno_of


@pytest.fixture
def path(runtime_dir: Path) -> Path:
    return lifecycle.start().socket_path


def _import(client: Client, fd: int) -> uapi.MemCreate:
    handle = client.call(uapi.DRM_IOCTL_PRIME_FD_TO_HANDLE, uapi.PrimeHandle(fd=fd)).handle
    return client.call(uapi.RKNPU_MEM_CREATE, uapi.MemCreate(handle=handle))


def test_an_import_over_the_socket_is_the_same_memory(path: Path) -> None:
    client, heap = Client(SimDevice(path)), SimDmaHeap(path)
    rows = np.random.default_rng(0).integers(-128, 128, (64, 64), dtype=np.int8)
    source = heap.allocate(rows.size)
    made = _import(client, source.fd)
    work = chain(client, [(made.dma_addr, rows)])
    np.frombuffer(source.mapping, np.uint8)[: rows.size] = (
        programs.weight_tiles(rows).view(np.uint8).reshape(-1)
    )
    work.run()
    assert not work.results()[0].any(), "nobody synced"
    source.sync(uapi.DmaBufSyncFlag.END | uapi.DmaBufSyncFlag.WRITE)
    work.run()
    assert np.array_equal(work.results()[0], work.expected[0])
    assert errno_of(lambda: source.sync(uapi.DmaBufSyncFlag.END)) == errno.EINVAL


def test_other_descriptors_are_no_dma_bufs(path: Path) -> None:
    client = Client(SimDevice(path))
    with Path("/dev/null").open() as null:
        assert errno_of(lambda: _import(client, null.fileno())) == errno.EINVAL
    assert errno_of(lambda: _import(client, 999_999)) == errno.EBADF
    stranger = os.memfd_create("stranger")
    assert errno_of(lambda: _import(client, stranger)) == errno.EINVAL
    os.close(stranger)


def test_a_device_connection_is_no_heap_and_a_heap_no_device(path: Path) -> None:
    from orkbench_tui.sim.protocol import Operation

    device, heap = SimDevice(path), SimDmaHeap(path)
    assert device._connections.call(Operation.HEAP_ALLOCATE, 4096).error == errno.EBADF
    argument = bytes(uapi.Action(flags=0))
    assert heap._connections.call(Operation.IOCTL, uapi.RKNPU_ACTION, 0, argument).error == errno.EBADF
    assert heap._connections.call(Operation.HEAP_SYNC, 12345, 5).error == errno.EINVAL
    assert heap._connections.call(Operation.HEAP_ALLOCATE, -1).error == errno.EINVAL


_DIES = """
import os, sys
from orkbench_tui.driver import uapi
from orkbench_tui.sim.client import SimDevice, SimDmaHeap
device, heap = SimDevice(sys.argv[1]), SimDmaHeap(sys.argv[1])
device.ioctl(uapi.RKNPU_ACTION, bytearray(uapi.Action(flags=25, value=1)))
for _ in range(4):
    argument = bytearray(uapi.PrimeHandle(fd=heap.allocate(1 << 20).fd))
    device.ioctl(uapi.DRM_IOCTL_PRIME_FD_TO_HANDLE, argument)
print("ready", flush=True)
os._exit(9)
"""


@pytest.mark.parametrize("patched", [False, True])
def test_a_client_that_dies_leaves_only_what_the_kernel_leaks(runtime_dir: Path, patched: bool) -> None:
    path = lifecycle.start(variant=BoardVariant(patch_import_domain=patched)).socket_path
    died = subprocess.run([sys.executable, "-c", _DIES, str(path)], capture_output=True, text=True)
    assert (died.returncode, died.stdout) == (9, "ready\n")
    deadline = time.monotonic() + 5
    while (status := lifecycle.status()) and status.open_files and time.monotonic() < deadline:
        time.sleep(0.01)
    status = lifecycle.status()
    assert status is not None
    assert status.leaked_mappings == (0 if patched else 4)
    heap = SimDmaHeap(path)
    assert heap.allocate(1 << 20).size == 1 << 20


def test_a_board_that_stops_takes_its_heap_along(path: Path) -> None:
    heap = SimDmaHeap(path)
    source = heap.allocate(4096)
    lifecycle.stop()
    assert errno_of(lambda: heap.allocate(4096)) == errno.ENODEV
    assert errno_of(lambda: source.sync(uapi.DmaBufSyncFlag.READ)) == errno.ENODEV
    source.close()
