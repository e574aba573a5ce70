"""1,000 random shapes per number format and way of submitting, through driver and simulated chip.

Integers are compared with exact references, fp16 with the bound of its additions in any order. Sizes are
drawn evenly over their powers of two: M 1 to 512, K 1 to what a path takes, N 1 to 4096, up to 2**22
multiplications; compiled programs take one row, K up to 4096, N up to 4096. Then the same for weights that
stay in the cores over row tiles.
"""

from __future__ import annotations

import math
import random
import time

import numpy as np

from orkbench_tui.driver.matmul.formats import INT8
from orkbench_tui.driver.matmul.reuse import WeightReuse
from orkbench_tui.driver.npu import Npu
from orkbench_tui.ops.checks import CHECKED_DTYPES, PATHS, exact_matmul
from orkbench_tui.sim.inprocess import InProcessBoard

_WORK = 1 << 22
_K_LIMITS = {"int8->int8": 8192, "int8->int16": 8192, "int16": 8192, "fp16->fp16": 8192}
_ONE_ROW_K = _LINKED_INT8_K = 4096
_LARGEST_K = 12000


def _size(source: random.Random, largest: int) -> int:
    return min(largest, int(2 ** source.uniform(0, math.log2(largest + 1))))


def shape(dtype: str, path: str, source: random.Random) -> tuple[int, int, int]:
    """(M, K, N) that the path takes."""
    rows = 1 if path == "compiled" else 512
    k = _K_LIMITS.get(dtype, _LARGEST_K)
    if path in ("chain", "doorbell") and dtype.startswith("int8"):
        k = min(k, _LINKED_INT8_K)
    while True:
        m, k_, n = _size(source, rows), _size(source, k if rows > 1 else _ONE_ROW_K), _size(source, 4096)
        if m * k_ * n <= _WORK:
            return m, k_, n


def run(count: int = 1000, seed: int = 0) -> None:
    """Print one line per format and path: cases, elements, wrong ones, the worst fp16 error."""
    wrong = 0
    for dtype in CHECKED_DTYPES:
        for path in PATHS:
            if path in ("compiled", "sliced") and dtype != "int8":
                continue
            source = random.Random(f"{seed} {dtype} {path}")
            board = InProcessBoard()
            start = time.perf_counter()
            checked = bad = 0
            worst = 0.0
            with Npu(board.device()) as npu:
                for index in range(count):
                    m, k, n = shape(dtype, path, source)
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
    wrong += _kept_weights(count, seed)
    print(f"paths: {wrong} wrong")


def _kept_weights(count: int, seed: int) -> int:
    """int8 with weight reuse at the measured K and bank counts; returns the wrong elements."""
    source = random.Random(f"{seed} reuse")
    board = InProcessBoard()
    start = time.perf_counter()
    checked = bad = 0
    with Npu(board.device()) as npu:
        for index in range(count):
            k, banks = source.choice([(1024, 4), (2048, 4), (4096, 4), (1024, 11), (2048, 11), (4096, 11)])
            m, n = source.randint(1, 400), 32 * source.randint(1, 8)
            numbers = np.random.default_rng(index)
            a = numbers.integers(-128, 128, (m, k), dtype=np.int8)
            w = numbers.integers(-128, 128, (n, k), dtype=np.int8)
            weight = npu.load(INT8, "w", w)
            matmul = npu.matmul([weight], m, reuse=WeightReuse(banks))
            matmul.a[:] = a
            matmul.run()
            # Products of 8-bit numbers: sums of 4096 of them are exact in fp64.
            right = a.astype(np.float64) @ w.T.astype(np.float64)
            bad += int(np.count_nonzero(matmul.outputs[0] != right))
            checked += m * n
            matmul.close()
            npu.free(weight)
    board.close()
    seconds = time.perf_counter() - start
    print(
        f"  int8         reuse     {count} cases, {checked:>9} elements, {bad} wrong, {seconds:.0f} s (host)"
    )
    return bad
