"""NPUs that fail on demand and leave files of what failed in a folder."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from orkbench_tui.driver.failure_files import FailureFiles
from orkbench_tui.driver.npu import Npu
from orkbench_tui.sim.inprocess import InProcessBoard
from tests.driver.gated_board import FaultyDevice


def failing_npu(
    board: InProcessBoard, folder: Path, fault: Callable[[int, bytearray, int], bool], keep: int = 8
) -> Npu:
    """An NPU whose calls ``fault`` may swallow or fail, as ``FaultyDevice`` does."""
    return Npu(FaultyDevice(board, fault), failure_files=FailureFiles(folder, keep, "sim"))


def documents(folder: Path) -> list[dict[str, Any]]:
    """What lies in the folder, oldest first."""
    return [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]
