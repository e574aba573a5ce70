"""A fixed number of weights in NPU memory, filled with one expert after the other in place.

Nothing is allocated for an expert, so the address window does not fragment. What was compiled keeps the
address of a place and not what lies there: after a refill it multiplies by the new expert.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence

import numpy as np

from orkbench_tui.driver import guards, uapi
from orkbench_tui.driver.failures import LifetimeError, OperandError
from orkbench_tui.driver.matmul.formats import INT8, MatmulFormat
from orkbench_tui.driver.matmul.weights import Weight, refill_tiles
from orkbench_tui.driver.npu import Npu

__all__ = ["ExpertPool"]

TilesOf = Callable[[int], np.ndarray]


def _require_window(npu: Npu, size: int, bytes_each: int, domain: int) -> None:
    free = npu.soc.iova_guard_bytes - npu.memory.used_bytes(domain)
    if size * uapi.page_up(bytes_each) > free:
        guards.refuse(
            "GRD-28", seen=f"{size} places of {bytes_each} bytes, {free} bytes of domain {domain} are free"
        )


class ExpertPool:
    """``size`` places for weights of ``k`` inputs and ``n`` outputs; ``tiles_of(expert)`` gives an expert's tiles.

    ``refills`` and ``hits`` count what ``hold`` did. Use as a context manager, or call ``close``.

    Raises:
        OperandError: no places.
        RefusedError: they do not fit the address window (GRD-28); nothing was loaded.
        NoMemoryError: there is no memory for them.
    """

    def __init__(
        self,
        npu: Npu,
        size: int,
        k: int,
        n: int,
        tiles_of: TilesOf,
        *,
        format: MatmulFormat = INT8,
        domain: int = 0,
    ) -> None:
        if size < 1:
            raise OperandError("a pool of experts", why=f"{size} places; at least 1 is needed")
        self._npu, self._tiles_of = npu, tiles_of
        _require_window(npu, size, format.memory_bytes(k * n), domain)
        empty = np.zeros(format.memory_bytes(k * n), np.uint8)
        self._free: list[Weight] = []
        self._held: OrderedDict[int, Weight] = OrderedDict()
        self.refills = self.hits = 0
        try:
            for place in range(size):
                self._free.append(npu.load_tiles(format, f"expert place {place}", empty, k, n, domain=domain))
        except BaseException:
            self.close()
            raise
        self._free.reverse()
        self.size = size

    def hold(self, experts: Sequence[int]) -> tuple[Weight, ...]:
        """The weights of ``experts``, all valid until the next call; those used longest ago make room.

        Raises:
            OperandError: more experts than places, or tiles of another size.
            LifetimeError: the pool is closed.
        """
        wanted = list(dict.fromkeys(experts))
        if not self._free and not self._held:
            raise LifetimeError("a pool of experts", why="it is closed", do="make it again")
        if len(wanted) > self.size:
            raise OperandError("a pool of experts", why=f"{len(wanted)} experts at once, {self.size} places")
        for expert in wanted:
            if expert in self._held:
                self.hits += 1
                self._held.move_to_end(expert)
        for expert in wanted:
            if expert not in self._held:
                self._fill(expert, set(wanted))
        return tuple(self._held[expert] for expert in experts)

    def _fill(self, expert: int, kept: set[int]) -> None:
        tiles = self._tiles_of(expert)
        if not self._free:
            oldest = next(held for held in self._held if held not in kept)
            self._free.append(self._held.pop(oldest))
        weight = self._free[-1]
        with self._npu.domain_switching.use(weight.domain):
            refill_tiles(self._npu.memory, weight, tiles)
        self._held[expert] = self._free.pop()
        self.refills += 1

    def close(self) -> None:
        """Give the places back; what was compiled with them refuses to run."""
        for weight in (*self._free, *self._held.values()):
            self._npu.free(weight)
        self._free.clear()
        self._held.clear()

    def __enter__(self) -> ExpertPool:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()
