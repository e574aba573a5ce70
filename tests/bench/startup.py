"""How long the command line takes to answer, in fresh processes."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path

ORK = Path(sys.executable).parent / "ork"


def _seconds(words: list[str], repeats: int) -> list[float]:
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        subprocess.run([ORK, *words], check=True, capture_output=True)
        times.append(time.perf_counter() - start)
    return times


def run(repeats: int = 12) -> None:
    for words in (["--help"], ["run", "--help"], ["board", "--help"], ["config", "show"]):
        times = _seconds(words, repeats)
        print(
            f"ork {' '.join(words)}: median {statistics.median(times):.3f} s, best {min(times):.3f} s (host)"
        )
