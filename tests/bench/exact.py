"""200 random int8 shapes through driver and simulated chip, against an exact reference."""

from __future__ import annotations

import random
import time

from orkbench_tui.driver.npu import Npu
from orkbench_tui.ops.checks import exact_matmul
from orkbench_tui.settings import Settings
from orkbench_tui.target import open_target


def shapes(count: int, seed: int) -> list[tuple[int, int, int]]:
    """(M, K, N): M 1..600, K a multiple of 32 up to 8192, N a multiple of 32 up to 12288."""
    source = random.Random(seed)
    return [
        (source.randint(1, 600), 32 * source.randint(1, 256), 32 * source.randint(1, 384))
        for _ in range(count)
    ]


def run(count: int = 200, seed: int = 0) -> None:
    """Print one line per 20 shapes and the total; every element of every result is compared."""
    wrong = checked = tasks = 0
    start = time.perf_counter()
    with open_target(Settings.load(target="sim")) as board:
        npu: Npu = board.open_npu()
        for index, (m, k, n) in enumerate(shapes(count, seed), 1):
            result = exact_matmul(npu, m, k, n, seed=index)
            wrong += result.wrong
            checked += m * n
            tasks += result.tasks
            if result.wrong:
                print(f"  {m}x{k} by {k}x{n}: {result.wrong} wrong")
            if index % 20 == 0:
                print(f"  {index} shapes, {checked} elements, {wrong} wrong", flush=True)
    seconds = time.perf_counter() - start
    print(f"exact: {count} shapes, {checked} elements, {tasks} tasks, {wrong} wrong, {seconds:.0f} s (host)")
