"""On a board whose NPU another driver has there is nothing to plan."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from orkbench_tui.errors import NoDeviceError
from orkbench_tui.ops.guard.board import GuardedBoard
from orkbench_tui.ops.operations.registry import OPERATIONS
from orkbench_tui.sim.board_variant import BoardVariant
from orkbench_tui.sim.inprocess import InProcessBoard


@pytest.mark.parametrize("name", ["reset", "drain", "rebind", "irq-affinity", "recover"])
def test_operations_on_the_npu_name_the_driver_that_has_it(tmp_path: Path, name: str) -> None:
    machine = InProcessBoard(variant=BoardVariant(board="rocket"))
    board = GuardedBoard(machine.files(), cast(Any, None), tmp_path, tmp_path / "lock", tuple, 1000)
    with pytest.raises(NoDeviceError, match="mainline rocket driver owns its NPU"):
        OPERATIONS[name].plan(board, {})
    machine.close()


@pytest.mark.parametrize("name", ["drop-caches", "governors"])
def test_operations_on_the_rest_of_the_board_go_on(tmp_path: Path, name: str) -> None:
    machine = InProcessBoard(variant=BoardVariant(board="rocket"))
    board = GuardedBoard(machine.files(), cast(Any, None), tmp_path, tmp_path / "lock", tuple, 1000)
    assert OPERATIONS[name].plan(board, {}).steps
    machine.close()
