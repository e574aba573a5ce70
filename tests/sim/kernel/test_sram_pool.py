"""The board whose NPU owns the system SRAM."""

from __future__ import annotations

import errno
import gzip
from collections.abc import Iterator

import numpy as np
import pytest

from orkbench_tui.driver import uapi
from orkbench_tui.sim.board_variant import BoardVariant
from orkbench_tui.sim.inprocess import InProcessBoard
from tests.sim.board_client import Client, matmul
from tests.sim.conftest import log_text
from tests.sim.kernel.imports import errno_of

NEAR = 0x403 | 0x100
TOTAL = 0xEF000
MM = "/sys/kernel/debug/rknpu/mm"


@pytest.fixture
def near() -> Iterator[InProcessBoard]:
    board = InProcessBoard(variant=BoardVariant(sram=True))
    yield board
    board.close()


def _granted(client: Client, size: int, request: int = 0, flags: int = NEAR) -> tuple[int, int]:
    made = client.call(uapi.RKNPU_MEM_CREATE, uapi.MemCreate(flags=flags, size=size, sram_size=request))
    return made.handle, made.sram_size


def test_the_grant_is_the_least_of_size_request_and_free(near: InProcessBoard) -> None:
    client = Client(near.device())
    assert [client.action(code) for code in (22, 23)] == [TOTAL, TOTAL]
    assert _granted(client, 8192)[1] == 8192
    assert _granted(client, 1 << 20, request=5000)[1] == 8192
    assert client.action(23) == TOTAL - 16384
    assert _granted(client, 2 << 20)[1] == TOTAL - 16384
    assert _granted(client, 4096)[1] == 0, "nothing left: DRAM"
    assert client.action(23) == 0


def test_a_freed_buffer_gives_its_chunks_back(near: InProcessBoard) -> None:
    client = Client(near.device())
    handle, granted = _granted(client, 64 << 10)
    assert granted == 64 << 10
    client.call(uapi.RKNPU_MEM_DESTROY, uapi.MemDestroy(handle=handle))
    assert client.action(23) == TOTAL


def test_a_scattered_pool_falls_back_and_says_so(near: InProcessBoard) -> None:
    client = Client(near.device())
    handles = [_granted(client, 4096)[0] for _ in range(TOTAL // 4096)]
    for handle in handles[::2]:
        client.call(uapi.RKNPU_MEM_DESTROY, uapi.MemDestroy(handle=handle))
    assert _granted(client, 8192)[1] == 0
    assert "mm allocate 8192 failed, ret: -12, free size: 491520" in log_text(near)


def test_a_matmul_on_chip_memory_is_exact(near: InProcessBoard) -> None:
    client = Client(near.device())
    allocate = client.allocate
    client.allocate = lambda size, flags=0x403, domain=0: allocate(  # type: ignore[method-assign]
        size, flags if flags & 8 else flags | 0x100, domain
    )
    work = matmul(client, 8, 64, 64)
    client.submit(work.tasks, 1)
    assert np.array_equal(work.result(), work.expected)
    assert client.action(23) < TOTAL


def test_a_kernel_mapping_in_sram_kills_the_board_until_a_power_cycle(near: InProcessBoard) -> None:
    client, other = Client(near.device()), Client(near.device())
    assert errno_of(lambda: _granted(client, 4096, flags=0x50B)) == errno.ENODEV
    for ask in (
        lambda: client.action(0),
        lambda: other.allocate(4096),
        lambda: Client(near.device()).action(1),
    ):
        assert errno_of(ask) == errno.ENODEV
    assert "kernel mapping" in near.kernel.wedged
    assert "wedged until a power cycle" in log_text(near)


def test_the_same_request_is_harmless_without_sram(board: InProcessBoard, client: Client) -> None:
    assert _granted(client, 4096, flags=0x50B)[1] == 0
    assert client.action(22) == 0
    assert board.kernel.wedged == ""


def test_the_mm_node_adds_up(near: InProcessBoard) -> None:
    client = Client(near.device())
    _granted(client, 512 << 10)
    lines = near.files().read(MM).data.decode().splitlines()
    assert lines[0] == 'SRAM bitmap: "*" - used, "." - free (1bit = 4KB)'
    assert lines[1:5] == [f"[{at:03}] [{'*' * 32}]" for at in range(4)]
    assert lines[8] == f"[007] [{'.' * 15}]"
    assert lines[9] == "SRAM total size: 978944, used: 524288, free: 454656"
    assert sum(line.count("*") for line in lines[1:9]) * 4096 == 524288


def test_only_the_board_with_sram_shows_it(board: InProcessBoard, near: InProcessBoard) -> None:
    assert board.files().read(MM).access.name == "ABSENT"
    assert b"RKNPU_SRAM is not set" in gzip.decompress(board.files().read("/proc/config.gz").data)
    assert b"RKNPU_SRAM=y" in gzip.decompress(near.files().read("/proc/config.gz").data)
    assert "mm" in near.files().list("/sys/kernel/debug/rknpu")
    sizes = [b"sram size: 0xef000" in b"".join(b.kernel.log.after(-1)) for b in (board, near)]
    assert sizes == [False, True]
