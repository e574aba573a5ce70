"""What differs between releases of the vendor driver, each on a board that carries it."""

from __future__ import annotations

import errno
import threading

import numpy as np
import pytest

from orkbench_tui.driver import uapi
from orkbench_tui.sim.chip.conv_native import execute_native
from orkbench_tui.sim.identity import DRIVERS
from orkbench_tui.sim.inprocess import InProcessBoard
from tests.sim.board_client import DATA, UNCACHED, Client, matmul
from tests.sim.conftest import log_text
from tests.sim.kernel.imports import import_into


def _errno(call: object, *arguments: object, **named: object) -> int | None:
    with pytest.raises(OSError) as caught:
        call(*arguments, **named)  # type: ignore[operator]
    return caught.value.errno


def _with(board: InProcessBoard, version: str) -> Client:
    if version != "0.9.8":
        board.machine.set_fault(f"old-driver={version}")
    return Client(board.device())


@pytest.mark.parametrize("version", list(DRIVERS))
def test_every_release_runs_a_matmul_and_says_who_it_is(board: InProcessBoard, version: str) -> None:
    client = _with(board, version)
    work = matmul(client, 4, 32, 32)
    answer = client.submit(work.tasks, 1)
    assert np.array_equal(work.result(), work.expected)
    assert (answer.hw_elapse_time != 0) == (version != "0.8.2")
    number = DRIVERS[version].number
    assert client.action(uapi.ActionCode.GET_DRV_VERSION) == number[0] * 10000 + number[1] * 100 + number[2]


@pytest.mark.parametrize(("version", "mask", "slots"), [
    ("0.9.2", 3, {0: (0, 1), 1: (0, 1)}), ("0.9.3", 7, {2: (0, 1), 3: (0, 1), 4: (0, 1)}),
])  # fmt: skip
def test_jobs_of_several_cores_never_complete_in_0_9_2_and_0_9_3(
    board: InProcessBoard, version: str, mask: int, slots: dict[int, tuple[int, int]]
) -> None:
    client = _with(board, version)
    work = matmul(client, 4, 32, 32)
    assert _errno(client.submit, work.tasks, 1, core_mask=mask, slots=slots) == errno.ETIMEDOUT
    for core in (0, 1, 2):
        client.submit(work.tasks, 1, core_mask=1 << core)
        assert np.array_equal(work.result(), work.expected), "one core at a time is well"


@pytest.mark.parametrize("version", ["0.8.2", "0.9.8"])
def test_sync_of_a_buffer_that_is_not_cached(board: InProcessBoard, version: str) -> None:
    client = _with(board, version)
    memory = client.allocate(4096, UNCACHED)
    if version == "0.8.2":
        client.sync(memory, 1)
    else:
        assert _errno(client.sync, memory, 1) == errno.EINVAL


def test_a_switch_of_0_9_7_does_not_look_at_who_runs() -> None:
    """The running chain goes on in the other domain's tables and faults there; 0.9.8 waits with the switch."""
    entered, go_on = threading.Event(), threading.Event()

    def execute(operation: object, space: object) -> None:
        entered.set()
        assert go_on.wait(20)
        execute_native(operation, space)  # type: ignore[arg-type]

    board = InProcessBoard(execute=execute)
    client = _with(board, "0.9.7")
    work = matmul(client, 4, 32, 32, copies=2)
    failed: list[int | None] = []
    thread = threading.Thread(
        target=lambda: failed.append(_errno(client.submit, work.tasks, 2, timeout=60_000))
    )
    thread.start()
    assert entered.wait(10)
    other = Client(board.device())
    other.allocate(4096, domain=1)
    go_on.set()
    thread.join(20)
    assert failed == [errno.ETIMEDOUT]
    text = log_text(board)
    assert "switch iommu domain from 0 to 1" in text and "time out" not in text
    assert "Page fault at" in text
    board.close()


def test_a_create_whose_switch_fails_lands_in_the_live_domain_of_0_9_7(board: InProcessBoard) -> None:
    client = _with(board, "0.9.7")
    first = client.allocate(4096, domain=2)
    stray = client.allocate(4096, DATA, domain=99)
    gem = board.kernel.memory.find(stray.obj_addr)
    assert (gem.mapped, gem.domain) == (2, 0)
    client.free(stray)
    assert board.kernel.domains.leaked_mappings == 1, "it is unmapped where it never was"
    client.free(first)


def test_six_imported_mappings_stay_the_limit_under_0_9_7(board: InProcessBoard) -> None:
    client = _with(board, "0.9.7")
    space = board.kernel.domains.seen_by_chain(0, 2)
    imported = [import_into(client, board, 4096).iova for _ in range(7)]
    with pytest.raises(Exception, match="more than 6 imported"):
        for one in imported:
            space.segment_at(one)


def test_the_nbuf_line_of_an_rk3576_names_its_size_from_0_9_8_on() -> None:
    from orkbench_tui.sim.boards import rk3576

    for name, driver in DRIVERS.items():
        text = "\n".join(line.message for line in rk3576.profile().boot_log(False, driver))
        assert "nbuf region: [0x000000003fe80000, 0x000000003ff80000)" in text
        assert ("nbuf size: 0x100000" in text) == (name == "0.9.8")
