"""Products of one shape whose operands are both told anew for every run.

A weight that is written for each run costs its cache maintenance and nothing else: programs keep its address.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from orkbench_tui.driver import uapi
from orkbench_tui.driver.chain import Chain, ChainTask, RoundRobinChains
from orkbench_tui.driver.context import Context
from orkbench_tui.driver.failures import OperandError
from orkbench_tui.driver.matmul.formats import FP16
from orkbench_tui.driver.matmul.weights import Weight, load_tiles
from orkbench_tui.driver.memory import Slice

__all__ = ["FreshProduct", "FreshProducts"]


@dataclass(frozen=True, slots=True, eq=False)
class FreshProduct:
    """``a`` float16 [rows, k] and ``tiles`` float16 [n * k] are to be filled, ``output`` float32 [rows, n] is valid
    after a run until the next one."""

    a: NDArray[np.float16]
    tiles: NDArray[np.float16]
    output: NDArray[np.float32]


class FreshProducts:
    """``count`` products fp16 [rows, k] x [k, n], each a submit on one core, dealt over the cores.

    Raises:
        OperandError: no products, or a k or n that is no whole tile.
        RefusedError: a shape the chip cannot run.
        NoMemoryError: there is no room for the operands.
    """

    def __init__(
        self, context: Context, count: int, rows: int, k: int, n: int, *, name: str = "fresh", domain: int = 0
    ) -> None:
        if count < 1:
            raise OperandError("products of fresh operands", why=f"{count} products; at least 1 is needed")
        self._context = context
        self._weights: list[Weight] = []
        self._chains: list[Chain] = []
        self._runs: dict[int, RoundRobinChains] = {}
        empty = np.zeros(n * k, np.float16)
        try:
            with context.domains.use(domain):
                for index in range(count):
                    weight = load_tiles(context.memory, FP16, f"{name} {index}", empty, k, n, domain=domain)
                    self._weights.append(weight)
                    self._chains.append(Chain(context, [ChainTask(weight, rows)]))
        except BaseException:
            self.close()
            raise
        self.products = tuple(
            FreshProduct(chain.activations[0], self._tiles(weight), chain.outputs[0])
            for chain, weight in zip(self._chains, self._weights, strict=True)
        )

    @staticmethod
    def _tiles(weight: Weight) -> NDArray[np.float16]:
        tiles = weight.tiles
        if tiles is None:
            raise OperandError(
                weight.name, why=f"K = {weight.k} is cut; its tiles cannot be written in one piece"
            )
        return tiles

    def run(self, count: int) -> None:
        """Compute the first ``count`` of them; none for 0.

        Raises:
            OperandError: more than there are, or numbers in ``a`` that are not finite.
            LifetimeError, NoDeviceError, UnhealthyError: see ``RoundRobinChains.run``.
        """
        if not 0 <= count <= len(self._chains):
            raise OperandError(
                "products of fresh operands", why=f"{count} asked for, {len(self._chains)} are there"
            )
        if count == 0:
            return
        if count not in self._runs:
            self._runs[count] = RoundRobinChains(self._context, self._chains[:count])
        self._context.require_ready("products of fresh operands", (w.buffer for w in self._weights))
        memory = self._context.memory
        with self._context.domains.use(self._weights[0].domain):
            for weight in self._weights[:count]:
                memory.sync(Slice(weight.buffer, 0, weight.buffer.size), uapi.SyncFlag.TO_DEVICE)
        self._runs[count].run()

    def close(self) -> None:
        """Give all memory back; the products cannot be run afterwards."""
        for chain in self._chains:
            chain.close()
        for weight in self._weights:
            self._context.memory.free(weight.buffer)
        self._chains, self._weights, self._runs = [], [], {}
