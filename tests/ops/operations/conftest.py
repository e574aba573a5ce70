from __future__ import annotations

from collections.abc import Iterator

import pytest

from orkbench_tui.sim.inprocess import InProcessBoard


@pytest.fixture
def sim() -> Iterator[InProcessBoard]:
    board = InProcessBoard()
    yield board
    board.close()
