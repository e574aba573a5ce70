"""A switch waits six seconds of the board's time for the job in flight, and fails as the kernel does."""

from __future__ import annotations

import errno
import threading
import time

import numpy as np
import pytest

from orkbench_tui.driver import uapi
from orkbench_tui.sim import timing
from orkbench_tui.sim.inprocess import InProcessBoard
from tests.sim.board_client import Client, matmul
from tests.sim.conftest import log_text
from tests.sim.kernel.imports import errno_of

TIMED_OUT = "switch iommu domain time out, failed to switch iommu domain, id: 1"


def _stuck(client: Client, timeout: int = 60_000) -> None:
    """A NONBLOCK job that never completes: its last task waits for another interrupt."""
    work = matmul(client, 4, 32, 32)
    client.set_task(work.tasks, 0, int_mask=0xC00)
    client.submit(work.tasks, 1, flags=uapi.JobFlag.PC | uapi.JobFlag.NONBLOCK, timeout=timeout)


def _wait_until_hung(board: InProcessBoard) -> None:
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        with board.kernel.condition:
            if any(core.owner and core.owner.hung for core in board.kernel.scheduler.cores):
                return
        time.sleep(0.001)
    raise AssertionError("the job does not hang")


def test_a_switch_gives_up_after_six_seconds_of_the_board(board: InProcessBoard, client: Client) -> None:
    _stuck(client)
    _wait_until_hung(board)
    before, skipped = board.clock.now_ns(), board.clock._skipped
    assert errno_of(lambda: client.action(25, 1)) == errno.EINVAL
    assert 6.0 <= (board.clock.now_ns() - before) / 1e9 < 9.0
    assert board.clock._skipped - skipped > 5_000_000_000, "pace fast does not sit it out"
    assert TIMED_OUT in log_text(board)
    assert client.action(24) == 0


def test_create_and_sync_in_another_domain_fail_with_it(board: InProcessBoard, client: Client) -> None:
    memory = client.allocate(4096, domain=1)
    _stuck(client)
    _wait_until_hung(board)
    assert errno_of(lambda: client.allocate(4096, domain=1)) == errno.EINVAL
    assert "rknpu_gem_object_create error" in log_text(board)
    assert errno_of(lambda: client.sync(memory, 1)) == errno.EINVAL


def test_destroy_tries_three_times_and_keeps_the_object(board: InProcessBoard, client: Client) -> None:
    memory = client.allocate(4096, domain=1)
    _stuck(client)
    _wait_until_hung(board)
    before = board.clock.now_ns()
    assert errno_of(lambda: client.free(memory)) == errno.EINVAL
    assert (board.clock.now_ns() - before) / 1e9 >= 18.0
    text = log_text(board)
    assert text.count(TIMED_OUT) == 3
    assert f"failed to destroy dma addr: {memory.iova:#018x}, size: 4096" in text
    assert board.kernel.memory.find(memory.obj_addr).size == 4096


def test_a_blocking_submit_learns_of_a_failed_switch_only_after_three_time_outs(
    board: InProcessBoard, client: Client
) -> None:
    other = matmul(client, 4, 32, 32)
    client.allocate(4096, domain=1)
    _stuck(client)
    _wait_until_hung(board)
    before = board.clock.now_ns()
    assert errno_of(lambda: client.submit(other.tasks, 1, domain=1, timeout=2000)) == errno.EINVAL
    assert (board.clock.now_ns() - before) / 1e9 >= 6 + 3 * 2
    text = log_text(board)
    assert "RKNPU: job commit failed" in text
    assert "job iommu domain id: 1, dev iommu domain id: 0" in text
    assert board.kernel.scheduler.resets == 0


def test_the_switch_happens_when_the_job_is_dropped_in_time(board: InProcessBoard, client: Client) -> None:
    work = matmul(client, 4, 32, 32)
    client.set_task(work.tasks, 0, int_mask=0xC00)
    ended = []

    def run() -> None:
        ended.append(errno_of(lambda: client.submit(work.tasks, 1, timeout=2000)))

    thread = threading.Thread(target=run)
    thread.start()
    other = Client(board.device())
    other.allocate(4096, domain=1)
    thread.join(10)
    assert ended == [errno.ETIMEDOUT]
    assert TIMED_OUT not in log_text(board)


@pytest.mark.parametrize("domain", [16, 17, 63])
def test_ids_from_sixteen_on_are_einval(board: InProcessBoard, client: Client, domain: int) -> None:
    assert errno_of(lambda: client.action(25, domain)) == errno.EINVAL
    assert f"invalid iommu domain id: {domain}, reuse domain id: 0" in log_text(board)


def test_all_sixteen_work_and_only_the_first_visit_costs(board: InProcessBoard, client: Client) -> None:
    before = board.clock.now_ns()
    for domain in (*range(1, 16), 0):
        client.action(25, domain)
    first = board.clock.now_ns() - before
    assert first >= 15 * timing.FIRST_TOUCH_NS
    assert board.kernel.domains.known() == list(range(16))
    skipped = board.clock._skipped
    for domain in range(16):
        client.action(25, domain)
    assert board.clock._skipped == skipped


def test_jobs_of_two_domains_take_turns(board: InProcessBoard, client: Client) -> None:
    first, second = matmul(client, 4, 32, 32), Client(board.device())
    for _ in range(20):
        second.action(25, 1)
        client.submit(first.tasks, 1)
        assert np.array_equal(first.result(), first.expected)
