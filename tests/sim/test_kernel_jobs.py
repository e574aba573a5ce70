"""Submits through the simulated kernel: queues, completion, time-outs, resets, and their log lines."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import threading
import time
from dataclasses import replace

import numpy as np
import pytest

from orkbench_tui.sim.chip.conv_native import execute_native
from orkbench_tui.sim.faults.catalogue import Event
from orkbench_tui.sim.inprocess import InProcessBoard
from orkbench_tui.sim.kernel import submit as submit_module
from tests.sim.board_client import DATA, TASKS, Client, matmul
from tests.sim.conftest import log_text


def _errno(call) -> int | None:
    with pytest.raises(OSError) as caught:
        call()
    return caught.value.errno


def test_a_job_runs_and_reports(board: InProcessBoard, client: Client) -> None:
    work = matmul(client, 8, 64, 96)
    answer = client.submit(work.tasks, 1)
    assert np.array_equal(work.result(), work.expected)
    assert answer.task_counter == 1
    assert answer.hw_elapse_time == int(4380 + (64 * 96 + 8 * 96 * 4) / 10.8)
    assert int.from_bytes(work.tasks.view[20:24].tobytes(), "little") & 0x300
    assert board.kernel.scheduler.jobs_done == 1
    assert log_text(board) == ""


@pytest.mark.parametrize(("mask", "core"), [(1, 0), (2, 1), (4, 2)])
def test_a_mask_runs_its_own_core_and_slot(
    board: InProcessBoard, client: Client, mask: int, core: int
) -> None:
    work = matmul(client, 4, 32, 32)
    client.submit(work.tasks, 1, core_mask=mask, slots={core: (0, 1)})
    assert np.array_equal(work.result(), work.expected)
    assert [c.interrupts for c in board.kernel.scheduler.cores] == [int(i == core) for i in range(3)]


def test_mask_zero_takes_a_free_core(client: Client) -> None:
    work = matmul(client, 4, 32, 32)
    assert client.submit(work.tasks, 1, core_mask=0).core_mask in (1, 2, 4)
    assert np.array_equal(work.result(), work.expected)


def test_a_mask_whose_slot_is_empty_times_out(board: InProcessBoard, client: Client) -> None:
    work = matmul(client, 4, 32, 32)
    assert _errno(lambda: client.submit(work.tasks, 1, core_mask=2, slots={0: (0, 1)})) == errno.ETIMEDOUT


def test_three_cores_read_slots_two_to_four(board: InProcessBoard, client: Client) -> None:
    work = matmul(client, 4, 32, 32)
    client.submit(work.tasks, 1, core_mask=7, slots={2: (0, 1), 3: (0, 1), 4: (0, 1)})
    assert np.array_equal(work.result(), work.expected)
    assert [core.interrupts for core in board.kernel.scheduler.cores] == [1, 1, 1]


def test_three_cores_with_slots_zero_to_two_wedge_the_board(board: InProcessBoard, client: Client) -> None:
    work = matmul(client, 4, 32, 32)
    slots = {0: (0, 1), 1: (0, 1), 2: (0, 1)}
    assert _errno(lambda: client.submit(work.tasks, 1, core_mask=7, slots=slots)) == errno.ETIMEDOUT
    assert "wedged until a power cycle" in log_text(board)
    client.action(6)
    assert _errno(lambda: client.submit(work.tasks, 1)) == errno.ETIMEDOUT, "a reset must not cure a wedge"
    assert board.kernel.scheduler.wedged


def test_wrong_int_mask_times_out_with_the_driver_s_lines(board: InProcessBoard, client: Client) -> None:
    work = matmul(client, 4, 32, 32)
    client.set_task(work.tasks, 0, int_mask=0xC00)
    assert _errno(lambda: client.submit(work.tasks, 1)) == errno.ETIMEDOUT
    lines = log_text(board).splitlines()
    patterns = [
        r"RKNPU: job: [0-9a-f]{16}, mask: 0x1, job iommu domain id: 0, dev iommu domain id: 0, wait_count: 1, "
        r"continue wait: 0, commit elapse time: 600\d{4}us, wait time: 600\d{4}us, timeout: 6000000us",
        r"RKNPU: failed to wait job, task counter: 1, flags: 0x5, ret = 0, elapsed time: 600\d{4}us",
        r"RKNPU: job timeout, flags: 0x0:",
        r"RKNPU: \\x09core 0 irq status: 0x0, raw status: 0x155, require mask: 0xc00, task counter: 0x1, "
        r"elapsed time: 610\d{4}us",
        r"RKNPU: soft reset, num: 6",
    ]
    assert len(lines) == len(patterns), lines
    for line, pattern in zip(lines, patterns, strict=True):
        assert re.fullmatch(pattern, line), line
    times = [int(record.split(b",")[2]) for record in board.kernel.log.after(39)]
    assert times[2] - times[1] >= 100_000
    assert times[4] - times[3] >= 100_000
    client.set_task(work.tasks, 0, int_mask=0x300)
    client.submit(work.tasks, 1)
    assert np.array_equal(work.result(), work.expected)


def test_half_an_int_mask_is_an_invalid_irq_status(board: InProcessBoard, client: Client) -> None:
    work = matmul(client, 4, 32, 32)
    client.set_task(work.tasks, 0, int_mask=0x100)
    assert _errno(lambda: client.submit(work.tasks, 1)) == errno.ETIMEDOUT
    first = log_text(board).splitlines()[0]
    assert first == (
        "RKNPU: invalid irq status: 0x100, raw status: 0x155, require mask: 0x100, task counter: 0x1"
    )


def test_a_fault_is_a_page_fault_and_a_timeout(board: InProcessBoard, client: Client) -> None:
    work = matmul(client, 4, 32, 32)
    client.free(work.memory_b)
    assert _errno(lambda: client.submit(work.tasks, 1)) == errno.ETIMEDOUT
    text = log_text(board)
    iova = work.memory_b.iova
    assert f"rk_iommu fdab9000.iommu: Page fault at {iova:#018x} of type read" in text
    assert (
        f"iova = {iova:#018x}: dte_index: {iova >> 22:#x} pte_index: {iova >> 12 & 0x3FF:#x} page_offset: 0x0"
        in text
    )
    assert "raw status: 0x1155" in text
    assert "simulated NPU: core 0, program 0" in text


def test_an_operation_that_is_not_simulated_never_completes_and_is_named(
    board: InProcessBoard, client: Client
) -> None:
    work = matmul(client, 4, 32, 32)
    _, tasks = client.write_programs([[0] * 108], enable=0x60)
    assert _errno(lambda: client.submit(tasks, 1)) == errno.ETIMEDOUT
    assert "[not simulated] pooling" in log_text(board)
    client.submit(work.tasks, 1)
    assert np.array_equal(work.result(), work.expected)


def test_a_chain_of_many_programs_runs_in_one_submit(client: Client) -> None:
    work = matmul(client, 4, 32, 32, copies=70)
    answer = client.submit(work.tasks, 70)
    assert answer.task_counter == 70
    assert answer.hw_elapse_time > 70 * 4380
    assert np.array_equal(work.result(), work.expected)


def test_more_tasks_than_one_commit_takes_are_committed_in_chunks(
    board: InProcessBoard, client: Client
) -> None:
    queues = board.kernel.scheduler.queues
    queues._soc = replace(queues._soc, max_tasks_per_commit=4)
    work = matmul(client, 4, 32, 32, copies=10)
    client.submit(work.tasks, 10)
    assert board.kernel.scheduler.cores[0].interrupts == 3
    assert np.array_equal(work.result(), work.expected)


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        ({"number": 0}, "RKNPU: invalid rknpu task number!"),
        ({"core_mask": 8}, "RKNPU: invalid rknpu core mask: 0x8"),
        ({"flags": 0x4}, ""),
        ({"flags": 0xD}, "RKNPU: failed to use rknpu fence, please enable rknpu fence config!"),
        ({"domain": 16}, "RKNPU fdab0000.npu: RKNPU: invalid iommu domain id: 16, reuse domain id: 0"),
    ],
)
def test_bad_submits_are_einval(
    board: InProcessBoard, client: Client, fields: dict[str, int], line: str
) -> None:
    work = matmul(client, 4, 32, 32)
    arguments = {"number": 1} | fields
    assert _errno(lambda: client.submit(work.tasks, **arguments)) == errno.EINVAL
    assert log_text(board).partition("\n")[0] == line


def test_a_task_buffer_without_kernel_mapping_is_refused(client: Client) -> None:
    work = matmul(client, 4, 32, 32)
    plain = client.allocate(4096, DATA)
    assert _errno(lambda: client.submit(plain, 1)) == errno.EFAULT
    assert _errno(lambda: client.submit(work.memory_a, 1)) == errno.EFAULT


@pytest.mark.parametrize("mask", [5, 6])
def test_masks_five_and_six_are_never_committed(board: InProcessBoard, client: Client, mask: int) -> None:
    work = matmul(client, 4, 32, 32)
    before = board.clock.now_ns()
    assert _errno(lambda: client.submit(work.tasks, 1, core_mask=mask, timeout=1000)) == errno.EINVAL
    assert board.clock.now_ns() - before >= 3_000_000_000
    text = log_text(board)
    assert f"RKNPU: Unknown core mask: {mask}" in text
    assert text.count("continue wait: 1, commit elapse time: 0us") == 2
    assert "RKNPU: job commit failed" in text
    assert "ret: -22" in text
    assert "soft reset" not in text


def test_a_reset_is_logged_and_takes_its_time_on_the_board(board: InProcessBoard, client: Client) -> None:
    before = board.clock.now_ns()
    client.action(6)
    assert board.clock.now_ns() - before >= 105_000_000
    assert log_text(board) == "RKNPU: soft reset, num: 6"


def test_nonblock_returns_at_once_and_completes(board: InProcessBoard, client: Client) -> None:
    work = matmul(client, 4, 32, 32)
    answer = client.submit(work.tasks, 1, flags=7, timeout=60_000)
    assert answer.hw_elapse_time == 0
    deadline = time.monotonic() + 5
    while board.kernel.scheduler.jobs_done == 0 and time.monotonic() < deadline:
        time.sleep(0.001)
    assert np.array_equal(work.result(), work.expected)


def test_a_stuck_nonblock_job_is_reaped_by_the_next_one(board: InProcessBoard, client: Client) -> None:
    stuck, good = matmul(client, 4, 32, 32), matmul(client, 4, 32, 32, seed=1)
    client.set_task(stuck.tasks, 0, int_mask=0xC00)
    client.submit(stuck.tasks, 1, flags=7, timeout=1)
    time.sleep(0.05)
    client.submit(good.tasks, 1, flags=7, timeout=60_000)
    deadline = time.monotonic() + 5
    while board.kernel.scheduler.jobs_done == 0 and time.monotonic() < deadline:
        time.sleep(0.001)
    assert np.array_equal(good.result(), good.expected)
    assert "soft reset, num: 6" in log_text(board)


class _Gate:
    """An executor that waits until the test lets it go on."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self.open = threading.Event()

    def __call__(self, operation, space) -> None:
        self.entered.set()
        assert self.open.wait(20)
        execute_native(operation, space)


def test_another_client_s_reset_ends_a_running_job_with_einval() -> None:
    gate = _Gate()
    board = InProcessBoard(execute=gate)
    client, other = Client(board.device()), Client(board.device())
    work = matmul(client, 4, 32, 32)
    outcome: list[int | None] = []
    thread = threading.Thread(target=lambda: outcome.append(_errno(lambda: client.submit(work.tasks, 1))))
    thread.start()
    assert gate.entered.wait(5)
    other.action(6)
    thread.join(5)
    assert outcome == [errno.EINVAL]
    gate.open.set()
    client.submit(work.tasks, 1)
    assert np.array_equal(work.result(), work.expected)
    board.close()


def test_a_file_closed_while_its_job_runs_keeps_its_buffers_until_the_end() -> None:
    gate = _Gate()
    board = InProcessBoard(execute=gate)
    device = board.device()
    client = Client(device)
    work = matmul(client, 4, 32, 32)
    segment = board.kernel.domains[0].space.segment_at(work.memory_c.iova)
    client.submit(work.tasks, 1, flags=7, timeout=60_000)
    assert gate.entered.wait(5)
    device.close()
    assert board.kernel.memory.objects > 0
    gate.open.set()
    deadline = time.monotonic() + 5
    while board.kernel.memory.objects and time.monotonic() < deadline:
        time.sleep(0.001)
    assert board.kernel.memory.objects == 0
    assert board.kernel.memory.allocated == 0
    m, n = work.expected.shape
    assert np.array_equal(segment.data.view(np.int32)[: m * n].reshape(m, n), work.expected)
    board.close()


def test_jobs_of_one_core_run_one_after_the_other_and_cores_overlap() -> None:
    gate = _Gate()
    board = InProcessBoard(execute=gate)
    client = Client(board.device())
    works = [matmul(client, 4, 32, 32, seed=index) for index in range(4)]
    masks = [1, 1, 2, 4]
    threads = [
        threading.Thread(target=client.submit, args=(work.tasks, 1), kwargs={"core_mask": mask})
        for work, mask in zip(works, masks, strict=True)
    ]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + 5
    cores = board.kernel.scheduler.cores
    while time.monotonic() < deadline and not (all(c.owner for c in cores) and len(cores[0].todo) == 1):
        time.sleep(0.001)
    assert [len(core.todo) for core in cores] == [1, 0, 0]
    gate.open.set()
    for thread in threads:
        thread.join(5)
    for work in works:
        assert np.array_equal(work.result(), work.expected)
    board.close()


def test_pace_real_waits_the_predicted_time(monkeypatch: pytest.MonkeyPatch) -> None:
    from orkbench_tui.sim import timing

    monkeypatch.setattr(timing, "program_ns", lambda *work, **how: 50_000_000)
    board = InProcessBoard(pace="real")
    client = Client(board.device())
    work = matmul(client, 4, 32, 32)
    began = time.monotonic()
    client.submit(work.tasks, 1)
    assert time.monotonic() - began >= 0.05
    board.close()


def test_submit_numbers_jobs_apart() -> None:
    first, second = next(submit_module._NUMBERS), next(submit_module._NUMBERS)
    assert second == first + 1


def test_the_task_array_is_read_through_the_cpu_side(client: Client) -> None:
    work = matmul(client, 4, 32, 32)
    tasks = client.allocate(40, TASKS)
    tasks.view[:40] = work.tasks.view[:40]
    client.submit(tasks, 1)
    assert np.array_equal(work.result(), work.expected)


def test_a_link_forward_beyond_the_count_aborts(board: InProcessBoard, client: Client) -> None:
    work = matmul(client, 4, 32, 32, copies=3)
    assert _errno(lambda: client.submit(work.tasks, 2)) == errno.EINVAL
    assert "RKNPU: job abort, flags: 0x0, ret: -22" in log_text(board)


def test_a_defect_in_the_executor_fails_the_job_and_not_the_board() -> None:
    calls = []

    def execute(operation, space) -> None:
        calls.append(operation)
        if len(calls) == 1:
            raise ZeroDivisionError("oops")
        execute_native(operation, space)

    board = InProcessBoard(execute=execute)
    client = Client(board.device())
    work = matmul(client, 4, 32, 32)
    assert _errno(lambda: client.submit(work.tasks, 1)) == errno.ETIMEDOUT
    assert "defect of the simulator: ZeroDivisionError('oops')" in log_text(board)
    client.submit(work.tasks, 1)
    assert np.array_equal(work.result(), work.expected)
    board.close()


def test_a_job_behind_a_stuck_one_that_nobody_waits_for_is_given_up(
    board: InProcessBoard, client: Client
) -> None:
    """Three time-outs on the board's clock, and no host time: 3 x 60 s would not end within a test."""
    work = matmul(client, 4, 32, 32)
    client.set_task(work.tasks, 0, int_mask=0x100)
    client.submit(work.tasks, 1, flags=7, timeout=60_000)
    before = board.clock.now_ns()
    assert _errno(lambda: client.submit(work.tasks, 1, timeout=60_000)) == errno.EINVAL
    assert board.clock.now_ns() - before >= 3 * 60_000_000_000
    lines = log_text(board)
    assert "wait_count: 1, continue wait: 1, commit elapse time: 0us" in lines
    assert "RKNPU: job commit failed" in lines and "soft reset" not in lines


def test_a_restart_gives_every_descriptor_back() -> None:
    """Buffers of files that were never closed, and of jobs that nobody waits for."""
    held = InProcessBoard()
    for _ in range(3):
        client = Client(held.device())
        work = matmul(client, 4, 32, 32)
        client.set_task(work.tasks, 0, int_mask=0x100)
        client.submit(work.tasks, 1, flags=7, timeout=60_000)
        imported = held.heap().allocate(4096)
        imported.close()
        held.heap().allocate(4096)
        files = {gem.fd: os.fstat(gem.fd).st_ino for gem in held.kernel.memory._by_obj.values()}
        assert len(files) == 5
        old = held.kernel
        held.machine.restart(Event.REBOOT)
        assert old.memory.objects == 0 and old.memory.held == 0
        for fd, inode in files.items():
            with contextlib.suppress(OSError):
                assert os.fstat(fd).st_ino != inode
        with pytest.raises(OSError) as caught:
            client.allocate(4096)
        assert caught.value.errno == errno.ENODEV
        client.device.close()
    held.close()


def test_a_reset_leaves_a_nonblock_job_the_time_it_takes_to_report() -> None:
    """Its result is in memory before its core's thread says so; a reset in between must not hang the core."""
    leave = threading.Event()

    def slow_to_report(operation, space) -> None:
        execute_native(operation, space)
        assert leave.wait(5)

    board = InProcessBoard(execute=slow_to_report)
    client = Client(board.device())
    work = matmul(client, 4, 32, 32)
    client.submit(work.tasks, 1, flags=7)
    deadline = time.monotonic() + 5
    while not np.array_equal(work.result(), work.expected) and time.monotonic() < deadline:
        time.sleep(0.001)
    reset = threading.Thread(target=client.action, args=(6,))
    reset.start()
    while not board.kernel.scheduler.queues.paused:
        time.sleep(0.001)
    leave.set()
    reset.join(5)
    assert board.kernel.scheduler.queues.jobs_done == 1
    client.submit(work.tasks, 1)
    board.close()
