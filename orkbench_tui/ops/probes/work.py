"""Operands, references and clocks that probes share."""

from __future__ import annotations

import contextlib
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from orkbench_tui.errors import UnhealthyError

if TYPE_CHECKING:
    import numpy as np

    from orkbench_tui.driver.matmul.weights import Weight
    from orkbench_tui.driver.npu import Npu

__all__ = ["exact", "int8", "linear_fit", "loaded", "median_us", "npu_ns"]


def int8(rows: int, columns: int, seed: int) -> np.ndarray:
    """Random int8 over the whole range: repeating data hides wrong tiles."""
    import numpy as np

    return np.random.default_rng(seed).integers(-128, 128, (rows, columns), dtype=np.int8)


def exact(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """int32 A [M, K] by B [N, K]; doubles hold these sums exactly."""
    import numpy as np

    return (a.astype(np.float64) @ b.astype(np.float64).T).astype(np.int32)


@contextlib.contextmanager
def loaded(npu: Npu, matrices: Sequence[np.ndarray], *, imported: bool = False) -> Iterator[list[Weight]]:
    """int8 weights [N, K] for the block. After a failure of the NPU they are kept: a lost job may read them."""
    from orkbench_tui.driver.matmul.formats import INT8

    weights: list[Weight] = []
    try:
        for index, matrix in enumerate(matrices):
            weights.append(npu.load(INT8, f"probe.{index}", matrix, imported=imported))
        yield weights
    except UnhealthyError:
        weights.clear()
        raise
    finally:
        for weight in weights:
            npu.free(weight)


def median_us(step: Callable[[], object], repeat: int = 5) -> float:
    """Median time of ``step`` on this machine's clock, once run before."""
    step()
    times = []
    for _ in range(repeat):
        started = time.perf_counter_ns()
        step()
        times.append((time.perf_counter_ns() - started) / 1e3)
    return statistics.median(times)


def npu_ns(npu: Npu, step: Callable[[], object]) -> int:
    """What the kernel reports for the jobs of ``step``."""
    before = npu.counters.hw_ns
    step()
    return npu.counters.hw_ns - before


def linear_fit(xs: Sequence[float], ys: Sequence[float]) -> tuple[float, float, float]:
    """(offset, slope, r squared) of the least squares line; ValueError for fewer than three points."""
    if len(xs) != len(ys) or len(xs) < 3:
        raise ValueError("a line needs three points")
    mean_x, mean_y = statistics.fmean(xs), statistics.fmean(ys)
    spread = sum((x - mean_x) ** 2 for x in xs)
    if not spread:
        raise ValueError("all points have the same x")
    slope = sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys, strict=True)) / spread
    offset = mean_y - slope * mean_x
    total = sum((y - mean_y) ** 2 for y in ys)
    left = sum((y - offset - slope * x) ** 2 for x, y in zip(xs, ys, strict=True))
    return offset, slope, 1 - left / total if total else 1.0
