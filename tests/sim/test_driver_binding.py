"""Unbind and bind of the rknpu driver by its nodes in sysfs."""

from __future__ import annotations

import errno
import threading

import numpy as np
import pytest

from orkbench_tui.ops.files import Access
from orkbench_tui.ops.kernel_log.classify import classify_all
from orkbench_tui.ops.kernel_log.records import parse_kmsg
from orkbench_tui.sim.board_variant import BoardVariant
from orkbench_tui.sim.inprocess import InProcessBoard
from tests.sim.board_client import Client, matmul
from tests.sim.conftest import log_text
from tests.sim.kernel.imports import errno_of, import_into

DRIVER = "/sys/bus/platform/drivers/RKNPU"
NPU = b"fdab0000.npu\n"


def _write(board: InProcessBoard, name: str, data: bytes = NPU) -> int | None:
    return errno_of(lambda: board.files().write(f"{DRIVER}/{name}", data))


def test_unbinding_takes_the_nodes_away_and_binding_brings_them_back(board: InProcessBoard) -> None:
    files = board.files()
    paths = (
        "/sys/kernel/debug/rknpu/load",
        "/dev/dri/renderD129",
        "/sys/class/devfreq/fdab0000.npu/cur_freq",
    )
    assert _write(board, "unbind", b"fdac0000.npu\n") == errno.ENODEV
    assert _write(board, "bind") == errno.EBUSY
    assert _write(board, "unbind") is None
    assert [files.read(path).access for path in paths] == [Access.ABSENT] * 3
    assert "renderD129" not in files.list("/dev/dri") and "renderD128" in files.list("/dev/dri")
    assert files.readlink(f"{DRIVER}/fdab0000.npu") is None
    assert errno_of(board.device) == errno.ENOENT
    assert _write(board, "unbind") == errno.ENODEV
    assert files.read("/sys/module/rknpu/version").access is Access.PRESENT, "the driver itself stays"
    assert _write(board, "bind") is None
    assert [files.read(path).access for path in paths] == [Access.PRESENT] * 3
    text = log_text(board)
    assert "[drm] Initialized rknpu 0.9.8 20240828 for fdab0000.npu on minor 1" in text
    assert "RKNPU fdab0000.npu: RKNPU: rknpu iommu is enabled, using iommu mode" in text
    client = Client(board.device())
    work = matmul(client, 4, 32, 32)
    client.submit(work.tasks, 1)
    assert np.array_equal(work.result(), work.expected)


def test_files_that_are_open_are_dead_from_then_on(board: InProcessBoard, client: Client) -> None:
    work = matmul(client, 4, 32, 32)
    assert _write(board, "unbind") is None
    assert board.kernel.memory.objects == 0
    for _ in range(2):
        assert errno_of(lambda: client.submit(work.tasks, 1)) == errno.ENODEV
        assert errno_of(lambda: client.allocate(4096)) == errno.ENODEV
        _write(board, "bind")


def test_a_job_at_work_makes_the_kernel_warn(board: InProcessBoard, client: Client) -> None:
    work = matmul(client, 4, 32, 32)
    board.machine.set_fault("wedge")
    board.clock.pace = "real"
    failed: list[int | None] = []
    thread = threading.Thread(
        target=lambda: failed.append(errno_of(lambda: client.submit(work.tasks, 1, timeout=60_000)))
    )
    thread.start()
    while not board.kernel.scheduler.queues.live_jobs():
        pass
    assert _write(board, "unbind") is None
    thread.join(20)
    assert failed == [errno.EINVAL]
    found = classify_all(parse_kmsg(board.kernel.log.after(-1)))
    assert [item.rule.id for item in found if item.rule and item.rule.id == "npu.unbind.busy"]
    _write(board, "bind")
    assert errno_of(lambda: Client(board.device()).allocate(4096)) is None


def test_leaks_of_other_domains_go_with_the_driver(board: InProcessBoard, client: Client) -> None:
    from tests.sim.kernel.imports import destroy

    client.allocate(4096, domain=1)
    destroy(client, import_into(client, board, 1 << 20, domain=1))
    assert board.kernel.domains.leaked_mappings == 1
    _write(board, "unbind")
    _write(board, "bind")
    assert board.kernel.domains.leaked_mappings == 0


@pytest.mark.parametrize(("name", "npu"), [("rk3576", "27700000.npu"), ("rk3566", "fde40000.npu")])
def test_every_board_with_the_driver_has_it(name: str, npu: str) -> None:
    board = InProcessBoard(variant=BoardVariant(board=name))
    assert _write(board, "unbind", npu.encode()) is None
    assert _write(board, "bind", npu.encode()) is None
    assert npu in log_text(board, 0)
    board.close()


def test_a_mainline_board_has_no_such_driver() -> None:
    board = InProcessBoard(variant=BoardVariant(board="rocket"))
    assert _write(board, "unbind") == errno.ENOENT
    board.close()
