"""1,000 random shapes per number format and way of submitting, through driver and simulated chip.

Integers are compared with exact references, fp16 with the bound of its additions in any order. Shapes:
M 1 to 80, K 1 to 1024, N 1 to 200; compiled programs take one row, K up to 4096, N up to 600.
"""

from __future__ import annotations

import random
import time

from orkbench_tui.driver.npu import Npu
from orkbench_tui.ops.checks import CHECKED_DTYPES, PATHS, exact_matmul
from orkbench_tui.sim.inprocess import InProcessBoard


def shape(path: str, source: random.Random) -> tuple[int, int, int]:
    if path == "compiled":
        return 1, source.randint(1, 4096), source.randint(1, 600)
    return source.randint(1, 80), source.randint(1, 1024), source.randint(1, 200)


def run(count: int = 1000, seed: int = 0) -> None:
    """Print one line per format and path: cases, elements, wrong ones, the worst fp16 error."""
    wrong = 0
    for dtype in CHECKED_DTYPES:
        for path in PATHS:
            if path == "compiled" and dtype != "int8":
                continue
            source = random.Random(f"{seed} {dtype} {path}")
            board = InProcessBoard()
            start = time.perf_counter()
            checked = bad = 0
            worst = 0.0
            with Npu(board.device()) as npu:
                for index in range(count):
                    m, k, n = shape(path, source)
                    result = exact_matmul(npu, m, k, n, seed=index, dtype=dtype, path=path)
                    checked += m * n
                    bad += result.wrong or 0
                    worst = max(worst, result.worst or 0.0)
                drops = npu.counters.drops
            board.close()
            wrong += bad
            note = f", worst at {worst:.2%} of the bound" if dtype.startswith("fp16") else ""
            print(
                f"  {dtype:<12} {path:<9} {count} cases, {checked:>9} elements, {bad} wrong{note}, "
                f"{drops} lost jobs, {time.perf_counter() - start:.0f} s (host)",
                flush=True,
            )
    print(f"paths: {wrong} wrong")
