"""Bringing a weight into the NPU's tiles against multiplying by it once: what streamed weights cost."""

from __future__ import annotations

from dataclasses import replace

from orkbench_tui.driver.timing.constants import value
from orkbench_tui.driver.timing.programs import Shape, hardware_ns

__all__ = ["crossover_rows", "fill_ratio", "prepare_ns"]

_MOST_ROWS = 1 << 16


def prepare_ns(shape: Shape) -> float:
    """Tiling the weight's bytes on the CPU: bound by the tiling, not by the memory."""
    return shape.weight_bytes / value("tile_rate")


def fill_ratio(shape: Shape, cores: int = 3) -> float:
    """Time to prepare the weight over the NPU's time of the matmul."""
    return prepare_ns(shape) / hardware_ns(shape, cores)


def crossover_rows(K: int, N: int, cores: int = 3) -> int:
    """Fewest rows (a power of two) from which the matmul takes longer than preparing its weight."""
    shape = Shape(1, K, N)
    while shape.M < _MOST_ROWS and fill_ratio(shape, cores) > 1:
        shape = replace(shape, M=2 * shape.M)
    return shape.M
