"""The app on a fake board, as a program: run under a pseudo terminal by the terminal tests."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from orkbench_tui.screens.app import OrkApp
from tests.ops.fake_board import FakeBoard

if __name__ == "__main__":
    board = FakeBoard()
    OrkApp(lambda: board, Path(sys.argv[1]), interval_s=0.2, colour=not os.environ.get("NO_COLOR")).run(
        mouse=False
    )
