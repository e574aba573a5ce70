from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from orkbench_tui.sim import lifecycle
from orkbench_tui.sim.inprocess import InProcessBoard
from tests.sim.board_client import Client


@pytest.fixture
def board() -> Iterator[InProcessBoard]:
    board = InProcessBoard()
    yield board
    board.close()


@pytest.fixture
def client(board: InProcessBoard) -> Iterator[Client]:
    device = board.device()
    yield Client(device)
    device.close()


@pytest.fixture
def runtime_dir(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A private runtime folder with a path short enough for a socket; its board is stopped afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="orksim-"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
    yield folder
    lifecycle.stop()
    shutil.rmtree(folder, ignore_errors=True)


def log_text(board: InProcessBoard, after: int = 39) -> str:
    """Messages of the kernel log since the boot lines, without record headers."""
    records = board.kernel.log.after(after)
    return "\n".join(record.decode().split(";", 1)[1].split("\n", 1)[0] for record in records)
