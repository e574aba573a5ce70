"""What reaches the kernel, submit by submit: one core each, and all tasks of a chain in one."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from orkbench_tui.driver.chain import ChainTask
from orkbench_tui.driver.matmul.formats import INT8
from orkbench_tui.driver.npu import Npu
from orkbench_tui.driver.timing.records import record
from orkbench_tui.sim.inprocess import InProcessBoard
from tests.driver.gated_board import FaultyDevice


@pytest.fixture
def traced() -> Iterator[tuple[Npu, FaultyDevice]]:
    board = InProcessBoard()
    device = FaultyDevice(board, lambda request, argument, nth: False)
    with Npu(device, timeout_ms=20_000) as npu:
        yield npu, device
    board.close()


def _chain(npu: Npu, tasks: int, seed: int, core: int = 0):
    random = np.random.default_rng(seed)
    a, b = (random.integers(-128, 128, shape, dtype=np.int8) for shape in ((1, 512), (64, 512)))
    weight = npu.load(INT8, f"w{seed}", b)
    return npu.chain([ChainTask(weight, 1, a=a)] * tasks, core=core)


@pytest.mark.parametrize("tasks", [1, 2, 7, 32])
def test_a_chain_of_s_tasks_is_one_submit_of_s_tasks(traced: tuple[Npu, FaultyDevice], tasks: int) -> None:
    npu, device = traced
    chain = _chain(npu, tasks, 1)
    before = len(device.submits)
    chain.run()
    assert [submit.task_number for submit in device.submits[before:]] == [tasks]


def test_streams_submit_as_the_closed_runtime_does(traced: tuple[Npu, FaultyDevice]) -> None:
    """One core a submit, three to six linked tasks, the cores in turns; several cores in one submit never."""
    npu, device = traced
    captured = record("INV-072").figures
    chains = [_chain(npu, 3 + index % 4, index) for index in range(9)]
    npu.round_robin(chains).run()
    npu.doorbell().close()
    masks = [submit.core_mask for submit in device.submits]
    assert set(masks) <= {captured["core 0"], captured["core 1"], captured["core 2"]}
    assert captured["all cores"] not in masks and all(mask.bit_count() == 1 for mask in masks)
    numbers = [submit.task_number for submit in device.submits if submit.task_number > 1]
    assert len(numbers) == 9
    assert captured["fewest tasks"] <= min(numbers) and max(numbers) <= captured["most tasks"]
    assert len(set(masks)) > 1
