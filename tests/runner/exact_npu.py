"""An NPU in memory: exact sums by numpy, shared buffers full of rubbish, as strict as the real one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tests.native.kernel_oracle import untiled

LANES = 3


@dataclass(frozen=True)
class ExactCounters:
    submits: int = 0
    tasks: int = 0
    hw_ns: int = 0


@dataclass(frozen=True, eq=False)
class ExactWeight:
    name: str
    k: int
    n: int
    stored: np.ndarray
    hidden: bool = False

    @property
    def tiles(self) -> np.ndarray | None:
        return None if self.hidden else self.stored


class ExactMatmul:
    def __init__(self, npu: ExactNpu, weights: Sequence[ExactWeight], rows: int, lane: int) -> None:
        assert len({weight.k for weight in weights}) == 1
        self._npu = npu
        self._weights = weights
        self._room, self._results = npu.lanes[lane]
        k = weights[0].k
        self.a = self._room[: rows * k].view(np.int8).reshape(rows, k)
        widths = [weight.n for weight in weights]
        sums = self._results[: rows * sum(widths)]
        parts = np.split(sums, np.cumsum([rows * width for width in widths])[:-1])
        self.outputs = tuple(part.reshape(rows, width) for part, width in zip(parts, widths, strict=True))

    def run(self) -> None:
        a = self.a.astype(np.float64)
        self._npu.enter()
        self._results[:] = -12345
        for weight, output in zip(self._weights, self.outputs, strict=True):
            matrix = untiled(weight.stored, weight.n, weight.k).astype(np.float64)
            output[:] = (a @ matrix.T).astype(np.int32)
        self._room[:] = 99
        before = self._npu.counters
        self._npu.counters = replace(before, submits=before.submits + 3, tasks=before.tasks + 7)


@dataclass(frozen=True, eq=False)
class ExactHalfProduct:
    a: np.ndarray
    tiles: np.ndarray
    output: np.ndarray


class ExactHalfProducts:
    """Halves multiplied exactly, each sum rounded once to float32; memory begins as zeros, results as rubbish."""

    def __init__(self, npu: ExactNpu, count: int, rows: int, k: int, n: int) -> None:
        assert k % 32 == n % 16 == 0
        self._npu = npu
        self.products = tuple(
            ExactHalfProduct(
                np.zeros((rows, k), np.float16),
                np.zeros(n * k, np.float16),
                np.full((rows, n), np.nan, np.float32),
            )
            for _ in range(count)
        )

    def run(self, count: int) -> None:
        assert 0 <= count <= len(self.products)
        if count:
            self._npu.enter()
        for product in self.products[:count]:
            n, k = product.output.shape[1], product.a.shape[1]
            tiles = product.tiles.reshape(n // 16, k // 32, 16, 32).transpose(0, 2, 1, 3)
            assert np.isfinite(product.a).all()
            product.output[:] = product.a.astype(np.float64) @ tiles.reshape(n, k).T.astype(np.float64)
            self._npu.half_products += 1


class ExactNpu:
    """``hide_tiles``: weights have no CPU view, as when K was split. ``before_run`` is called before each run."""

    def __init__(self, *, hide_tiles: bool = False) -> None:
        self.lanes = [
            (np.full(1 << 20, 99, np.uint8), np.full(1 << 20, -12345, np.int32)) for _ in range(LANES)
        ]
        self.before_run: Callable[[], None] | None = None
        self.counters = ExactCounters()
        self.loaded: list[str] = []
        self.domains: dict[str, int] = {}
        self.half_products = 0
        self.compiled: list[tuple[tuple[str, ...], int]] = []
        self._hide_tiles = hide_tiles

    def load_int8(self, name: str, tiles: np.ndarray, k: int, n: int, *, domain: int = 0) -> ExactWeight:
        assert tiles.size == k * n and k % 32 == n % 32 == 0
        self.loaded.append(name)
        self.domains[name] = domain
        return ExactWeight(name, k, n, np.array(tiles), self._hide_tiles)

    def matmul_int8(self, weights: Sequence[ExactWeight], rows: int, *, lane: int = 0) -> ExactMatmul:
        self.compiled.append((tuple(weight.name for weight in weights), rows))
        return ExactMatmul(self, weights, rows, lane)

    def fresh_products(self, count: int, rows: int, k: int, n: int, name: str) -> ExactHalfProducts:
        return ExactHalfProducts(self, count, rows, k, n)

    def enter(self) -> None:
        if self.before_run is not None:
            self.before_run()
