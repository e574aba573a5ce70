"""What a program takes on the simulated chip: the driver's timing model, from the registers alone."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from orkbench_tui.driver.matmul.formats import INT8
from orkbench_tui.driver.npu import Npu
from orkbench_tui.driver.timing.programs import Shape, program_ns
from orkbench_tui.sim.inprocess import InProcessBoard


@pytest.fixture
def npu() -> Iterator[Npu]:
    board = InProcessBoard()
    with Npu(board.device()) as opened:
        yield opened
    board.close()


@pytest.mark.parametrize(("m", "k", "n"), [(1, 512, 512), (1, 2048, 2048), (64, 1024, 512)])
def test_a_program_takes_what_the_model_says(npu: Npu, m: int, k: int, n: int) -> None:
    weight = npu.load(INT8, "w", np.ones((n, k), np.int8))
    matmul = npu.matmul([weight], m)
    matmul.a[:] = 1
    matmul.run_on(0)
    before = npu.counters
    matmul.run_on(0)
    used = npu.counters.since(before)
    parts = used.tasks
    one = program_ns(Shape(m, k, n // parts))
    assert used.hw_ns == pytest.approx(parts * one, rel=0.02)
