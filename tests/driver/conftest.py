"""An NPU on a simulated board inside the test process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from orkbench_tui.driver.npu import Npu
from orkbench_tui.sim.inprocess import InProcessBoard


@pytest.fixture
def board() -> Iterator[InProcessBoard]:
    board = InProcessBoard()
    yield board
    board.close()


@pytest.fixture
def npu(board: InProcessBoard) -> Iterator[Npu]:
    with Npu(board.device(), timeout_ms=2000) as npu:
        yield npu
