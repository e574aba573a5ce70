"""The README's picture, taken from the running app: ``python -m tests.bench.screenshot [FILE]``.

A perplexity run keeps the simulated NPU busy in another process; the picture is taken once all three
cores were loaded for a while.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from orkbench_tui.ops.telemetry.sample import Sample
from orkbench_tui.screens.picture import save_picture
from orkbench_tui.settings import Settings
from orkbench_tui.target import connect_files, occupancy_dir, open_target

PICTURE = Path(__file__).parents[2] / "docs" / "images" / "dashboard.svg"
BUSY_SAMPLES = 10


class _Busy:
    """True once the load plot has something to show."""

    def __init__(self) -> None:
        self._seen: set[float] = set()

    def __call__(self, sample: Sample) -> bool:
        loads = [core.load_pct or 0 for core in sample.npu.cores]
        if sample.occupancy.processes and min(loads) >= 5:
            self._seen.add(sample.unix_s)
        return len(self._seen) >= BUSY_SAMPLES and min(loads) >= 5


def main() -> None:
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else PICTURE
    path.parent.mkdir(parents=True, exist_ok=True)
    settings = Settings.load(target="sim")
    with open_target(settings):
        words = [sys.executable, "-m", "orkbench_tui.cli.main", "run", "ppl", "--window", "512"]
        load = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            save_picture(
                lambda: connect_files(settings),
                occupancy_dir(),
                path,
                size=(100, 28),
                seconds=40,
                ready=_Busy(),
            )
        finally:
            load.terminate()
            load.wait()
    # The font is named, not fetched: a picture in a document must not call out.
    path.write_text(re.sub(r"@font-face\s*{[^}]*}", "", path.read_text()))
    print(path)


if __name__ == "__main__":
    main()
