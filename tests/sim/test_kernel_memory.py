"""Buffers: addresses, handles, coherence, domains."""

from __future__ import annotations

import ctypes
import errno

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orkbench_tui.driver import uapi
from orkbench_tui.sim.inprocess import InProcessBoard
from orkbench_tui.sim.kernel.iova import BOTTOM, TOP, IovaAllocator
from tests.sim.board_client import DATA, UNCACHED, Client, matmul
from tests.sim.conftest import log_text
from tests.sim.test_kernel_jobs import _errno


def test_addresses_come_top_down_by_page(client: Client) -> None:
    first, second, third = client.allocate(1), client.allocate(4096), client.allocate(5000)
    assert (first.iova, second.iova, third.iova) == (0xFFFFE000, 0xFFFFD000, 0xFFFFB000)
    assert third.size == 8192
    client.free(second)
    assert client.allocate(100).iova == 0xFFFFD000


def test_without_the_alignment_limit_addresses_are_aligned_to_the_size(client: Client) -> None:
    assert client.allocate(5 << 20, flags=0x003).iova % (8 << 20) == 0


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 1 << 22), st.booleans()), max_size=40))
def test_ranges_never_overlap_and_all_come_back(requests: list[tuple[int, bool]]) -> None:
    allocator, live = IovaAllocator(), []
    for size, keep in requests:
        address = allocator.allocate(size)
        assert address is not None
        pages = uapi.page_up(size)
        assert address >= BOTTOM
        assert address + pages <= TOP
        assert all(address + pages <= a or a + s <= address for a, s in live)
        live.append((address, pages))
        if not keep:
            allocator.free(*live.pop(len(live) // 2))
    for address, size in live:
        allocator.free(address, size)
    assert allocator.free_bytes == TOP - BOTTOM
    assert allocator.allocate(TOP - BOTTOM) == BOTTOM


def test_a_window_of_four_gib_fills_up(board: InProcessBoard, client: Client) -> None:
    for _ in range(3):
        client.call(uapi.RKNPU_MEM_CREATE, uapi.MemCreate(flags=UNCACHED | 0x400, size=1 << 30))
    request = uapi.MemCreate(flags=UNCACHED | 0x400, size=1 << 30)
    assert _errno(lambda: client.call(uapi.RKNPU_MEM_CREATE, request)) == errno.ENOMEM
    text = log_text(board)
    assert "RKNPU: failed to allocate IOVA: -12" in text
    assert f"RKNPU fdab0000.npu: RKNPU: rknpu_gem_get_pages: dma map {1 << 30} fail" in text


def test_stale_operands_and_results_without_sync(client: Client) -> None:
    work = matmul(client, 4, 32, 32)
    client.submit(work.tasks, 1)
    old = work.expected
    assert np.array_equal(work.result(), old)

    changed = np.full((4, 32), 3, np.int8)
    client.put(work.memory_a, changed, sync=False)
    client.submit(work.tasks, 1)
    assert np.array_equal(work.result(), old), "the chip saw a write nobody synced"

    client.sync(work.memory_a, 1)
    client.submit(work.tasks, 1)
    new = changed.astype(np.int64) @ work.b.T.astype(np.int64)
    assert np.array_equal(work.result(sync=False), old), "the CPU saw a result nobody synced"
    assert np.array_equal(work.result(), new)


def test_a_sync_moves_only_its_range(client: Client) -> None:
    memory = client.allocate(4096)
    memory.view[:] = 9
    client.sync(memory, 1, offset=64, size=64)
    memory.view[:] = 0
    client.sync(memory, 2)
    assert (memory.view[64:128] == 9).all()
    assert not memory.view[:64].any()
    assert not memory.view[128:].any()


def test_uncached_buffers_are_one_memory_and_refuse_sync(client: Client) -> None:
    memory = client.allocate(4096, UNCACHED)
    assert _errno(lambda: client.sync(memory, 1)) == errno.EINVAL
    again = np.frombuffer(client.device.mmap(_offset(client, memory.handle), 4096), np.uint8)
    memory.view[5] = 77
    assert again[5] == 77


def _offset(client: Client, handle: int) -> int:
    return client.call(uapi.RKNPU_MEM_MAP, uapi.MemMap(handle=handle)).offset


@pytest.mark.parametrize(("offset", "size"), [(0, 8192), (4096, 1), (1 << 63, 1)])
def test_a_sync_outside_the_buffer_is_einval(client: Client, offset: int, size: int) -> None:
    memory = client.allocate(4096)
    request = uapi.MemSync(flags=1, obj_addr=memory.obj_addr, offset=offset, size=size)
    assert _errno(lambda: client.call(uapi.RKNPU_MEM_SYNC, request)) == errno.EINVAL


def test_mmap_checks_offset_length_and_owner(board: InProcessBoard, client: Client) -> None:
    memory = client.allocate(4096)
    offset = _offset(client, memory.handle)
    assert _errno(lambda: client.device.mmap(offset, 8192)) == errno.EINVAL
    assert _errno(lambda: client.device.mmap(offset + 4096, 4096)) == errno.EINVAL
    assert _errno(lambda: board.device().mmap(offset, 4096)) == errno.EACCES


def test_handles_belong_to_their_file_and_close_frees(board: InProcessBoard) -> None:
    device, other = board.device(), board.device()
    client, stranger = Client(device), Client(other)
    memory = client.allocate(1 << 20)
    assert (
        _errno(lambda: stranger.call(uapi.RKNPU_MEM_MAP, uapi.MemMap(handle=memory.handle))) == errno.EINVAL
    )
    device.close()
    assert board.kernel.memory.allocated == 0
    assert _errno(lambda: stranger.sync(memory, 1)) == errno.EINVAL
    memory.view[0] = 1


def test_an_existing_handle_answers_its_addresses(client: Client) -> None:
    memory = client.allocate(4096)
    again = client.call(uapi.RKNPU_MEM_CREATE, uapi.MemCreate(handle=memory.handle, size=1 << 30))
    assert (again.obj_addr, again.dma_addr) == (memory.obj_addr, memory.iova)
    client.call(uapi.DRM_IOCTL_GEM_CLOSE, uapi.GemClose(handle=memory.handle))
    assert _errno(lambda: _offset(client, memory.handle)) == errno.EINVAL


def test_the_forty_byte_create_of_older_drivers_works(client: Client) -> None:
    request = (uapi.RKNPU_MEM_CREATE & ~(0x3FFF << 16)) | 40 << 16
    argument = bytearray(bytes(uapi.MemCreate(flags=DATA, size=100))[:40])
    client.device.ioctl(request, argument)
    assert uapi.MemCreate.from_buffer_copy(argument + bytes(8)).dma_addr == 0xFFFFE000


def test_domains_have_windows_of_their_own_and_switches_are_logged(
    board: InProcessBoard, client: Client
) -> None:
    first, second = client.allocate(4096), client.allocate(4096, domain=3)
    assert first.iova == second.iova
    assert client.action(24) == 3
    client.sync(first, 1)
    assert client.action(24) == 0
    client.action(25, 3)
    expected = ["0 to 3", "3 to 0", "0 to 3"]
    assert log_text(board).splitlines() == [f"RKNPU: switch iommu domain from {pair}" for pair in expected]


def test_operands_of_another_domain_fault(client: Client) -> None:
    work = matmul(client, 4, 32, 32)
    anchor = client.allocate(4096, domain=1)
    assert anchor.size == 4096
    assert _errno(lambda: client.submit(work.tasks, 1, domain=1)) == errno.ETIMEDOUT


@pytest.mark.parametrize("domain", [16, -1])
def test_a_domain_outside_the_range_is_einval(client: Client, domain: int) -> None:
    assert _errno(lambda: client.allocate(4096, domain=domain)) == errno.EINVAL


@pytest.mark.parametrize(("size", "flags"), [(0, DATA), (4096, 0x10000)])
def test_bad_sizes_and_flags_are_einval(client: Client, size: int, flags: int) -> None:
    assert _errno(lambda: client.allocate(size, flags)) == errno.EINVAL


@pytest.mark.parametrize(
    ("code", "value"),
    [
        (0, 0x46495245),
        (1, 908),
        (2, 1_000_000_000),
        (4, 850_000),
        (18, 1),
        (22, 0),
        (23, 0),
        (24, 0),
        (13, 0),
        (19, 0),
    ],
)
def test_actions_answer(client: Client, code: int, value: int) -> None:
    assert client.action(code) == value


@pytest.mark.parametrize("code", [3, 5, 7, 8, 9, 10, 11, 12, 20, 21, 26, 999])
def test_actions_of_no_use_are_einval(client: Client, code: int) -> None:
    assert _errno(lambda: client.action(code)) == errno.EINVAL


def test_counters_do_not_exist_on_this_chip(board: InProcessBoard, client: Client) -> None:
    assert client.action(17, 1234) == 1234
    assert "is not supported on this device!" in log_text(board)


def test_unknown_commands_are_enotty(client: Client) -> None:
    assert _errno(lambda: client.device.ioctl(0xC0087200, bytearray(8))) == errno.ENOTTY


def test_drm_version_names_the_driver(client: Client) -> None:
    version = uapi.DrmVersion()
    client.device.ioctl(uapi.DRM_IOCTL_VERSION, argument := bytearray(version))
    lengths = uapi.DrmVersion.from_buffer_copy(argument)
    assert (lengths.name_len, lengths.date_len) == (5, 8)
    name = ctypes.create_string_buffer(6)
    asked = uapi.DrmVersion(name_len=5, name=ctypes.addressof(name))
    client.device.ioctl(uapi.DRM_IOCTL_VERSION, bytearray(asked))
    assert name.value == b"rknpu"
