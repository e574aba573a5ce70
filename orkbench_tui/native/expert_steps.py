"""Steps of a feed-forward of experts: where rows go, products by expert, results put together.

Slots are all (row, choice) pairs sorted by expert. R stands for rows, S = R * used for slots.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from orkbench_tui.native.library import require
from orkbench_tui.native.steps import Codes, Steps
from orkbench_tui.native.tiles import padded

__all__ = [
    "EXPERTS_MAX",
    "NibbleRows",
    "Routing",
    "combine",
    "gather",
    "nibble_products",
    "products",
    "route",
]

EXPERTS_MAX = 4096
_WHOLE = 32

Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class Routing:
    """Which experts rows go to: chosen, slots int32 and shares float32 [R, used]; offsets int32 [experts + 1]."""

    chosen: NDArray[np.int32]
    shares: Floats
    slots: NDArray[np.int32]
    offsets: NDArray[np.int32]

    @classmethod
    def of(cls, rows: int, experts: int, used: int) -> Routing:
        if not 1 <= used <= experts <= EXPERTS_MAX:
            raise ValueError(f"{used} of {experts} experts; there are 1 to {EXPERTS_MAX}")
        shape = (rows, used)
        return cls(
            np.zeros(shape, np.int32),
            np.zeros(shape, np.float32),
            np.zeros(shape, np.int32),
            np.zeros(experts + 1, np.int32),
        )

    @property
    def rows(self) -> int:
        return len(self.chosen)

    @property
    def used(self) -> int:
        return self.chosen.shape[1]

    @property
    def experts(self) -> int:
        return len(self.offsets) - 1


@dataclass(frozen=True, slots=True, eq=False)
class NibbleRows:
    """A 4-bit weight as its rows: ``nibbles`` uint8 [N, K / 2], the even k in the low one; ``scales`` float32 [N].

    A nibble is worth ``levels[nibble]`` (int8 [16]), or ``(level * multiplier + 64) >> 7`` with ``multipliers``
    int8 [N, K / G], G a multiple of 32: the int8 number that ``inflate_tiles`` makes of it.
    """

    nibbles: NDArray[np.uint8]
    levels: NDArray[np.int8]
    scales: Floats
    multipliers: NDArray[np.int8] | None = None

    @property
    def k(self) -> int:
        return 2 * self.nibbles.shape[1]

    @property
    def group(self) -> int:
        """Values of K that share a multiplier; all where there is none."""
        return self.k if self.multipliers is None else self.k // max(1, self.multipliers.shape[1])

    @property
    def runs(self) -> bool:
        """Whether the kernels take it as it is: K and groups in whole 32."""
        return self.k % _WHOLE == 0 and self.group % _WHOLE == 0


def route(steps: Steps, source: Floats, router: Floats, routing: Routing) -> None:
    """Fills ``routing``: softmax over all experts of source [R, width] by router [experts, width], the best, renormalized."""
    require(router, np.float32, (routing.experts, None), "router")
    require(source, np.float32, (None, router.shape[1]), "routed rows")
    counts = {"experts": routing.experts, "used": routing.used}
    fields = {"input": source, "router": router, "width": router.shape[1], **counts}
    fields |= {"chosen": routing.chosen, "shares": routing.shares}
    steps.checked_step("route", min(len(source), routing.rows), fields)
    grouped = {"chosen": routing.chosen, "slots": routing.slots, "offsets": routing.offsets}
    steps.checked_step("group", routing.rows, {**grouped, **counts})


def gather(steps: Steps, codes: Codes, grouped: Codes, routing: Routing) -> None:
    """Copies codes of rows [R, K] to their slots [S, K]."""
    stride = codes.values.shape[1]
    require(codes.values, np.int8, (None, stride), "codes")
    require(grouped.values, np.int8, (None, stride), "grouped codes")
    rows = min(len(codes.values), len(grouped.values) // routing.used, routing.rows)
    fields = {"codes": codes.values, "code_scales": codes.scales, "slots": routing.slots}
    fields |= {"grouped": grouped.values, "grouped_scales": grouped.scales}
    steps.checked_step("gather", rows, {**fields, "code_stride": stride, "used": routing.used})


def products(
    steps: Steps,
    grouped: Codes,
    weights: Sequence[tuple[NDArray[np.int8], Floats]],
    output: Floats,
    routing: Routing,
    *,
    join: bool = True,
) -> None:
    """``output`` [S, N] = grouped codes [S, K] by the weight of each slot's expert, (tiles, scales [N]) each."""
    n, k = output.shape[1], grouped.values.shape[1]
    if len(weights) != routing.experts:
        raise ValueError(f"{len(weights)} weights for {routing.experts} experts")
    for tiles, scales in weights:
        require(tiles, np.int8, (padded(n) * k,), "tiles")
        require(scales, np.float32, (n,), "weight scales")
    require(output, np.float32, (None, n), "expert output")
    rows = min(len(output), len(grouped.values)) // routing.used
    fields = {"codes": grouped.values, "code_scales": grouped.scales, "offsets": routing.offsets}
    fields |= {"output": output, "experts": routing.experts, "k": k, "n": n, "code_stride": k}
    tables = {
        name: np.array([pair[part].ctypes.data for pair in weights], np.uintp)
        for part, name in enumerate(("tiles", "weight_scales"))
    }
    steps.keep(array for pair in weights for array in pair)
    steps.checked_step("experts", rows, fields | tables, join=join)


def nibble_products(
    steps: Steps,
    grouped: Codes,
    weights: Sequence[NibbleRows],
    output: Floats,
    routing: Routing,
    *,
    join: bool = True,
) -> None:
    """``products`` from 4-bit weights, all alike in levels and groups; the same bits as from their tiles."""
    n, k = output.shape[1], grouped.values.shape[1]
    if len(weights) != routing.experts:
        raise ValueError(f"{len(weights)} weights for {routing.experts} experts")
    first = weights[0]
    require(first.levels, np.int8, (16,), "levels")
    for weight in weights:
        require(weight.nibbles, np.uint8, (n, k // 2), "nibbles")
        require(weight.scales, np.float32, (n,), "weight scales")
        if weight.multipliers is not None:
            require(weight.multipliers, np.int8, (n, k // first.group), "multipliers")
        same = weight.levels.tobytes() == first.levels.tobytes() and weight.group == first.group
        if not same or (weight.multipliers is None) != (first.multipliers is None) or not weight.runs:
            raise ValueError("weights of experts differ in levels or groups, or have groups of no whole 32")
    require(output, np.float32, (None, n), "expert output")
    rows = min(len(output), len(grouped.values)) // routing.used
    fields = {"codes": grouped.values, "code_scales": grouped.scales, "offsets": routing.offsets}
    fields |= {"output": output, "experts": routing.experts, "k": k, "n": n, "code_stride": k}
    fields |= {"levels": first.levels, "group": first.group}
    fields |= {"nibbles": _addresses([weight.nibbles for weight in weights])}
    fields |= {"weight_scales": _addresses([weight.scales for weight in weights])}
    multipliers = [weight.multipliers for weight in weights if weight.multipliers is not None]
    fields |= {"multipliers": _addresses(multipliers) if multipliers else None}
    steps.keep([*multipliers, *(array for weight in weights for array in (weight.nibbles, weight.scales))])
    steps.checked_step("nibble_experts", rows, fields, join=join)


def _addresses(arrays: Sequence[np.ndarray]) -> NDArray[np.uintp]:
    return np.array([array.ctypes.data for array in arrays], np.uintp)


def combine(steps: Steps, results: Floats, output: Floats, routing: Routing) -> None:
    """``output`` [R, width] += the sum over each row's choices of share * results[slot], results [S, width]."""
    width = output.shape[1]
    require(results, np.float32, (None, width), "expert results")
    require(output, np.float32, (None, width), "combined output")
    rows = min(len(output), len(results) // routing.used, routing.rows)
    fields = {"input": results, "slots": routing.slots, "shares": routing.shares, "output": output}
    steps.checked_step("combine", rows, {**fields, "width": width, "used": routing.used})
