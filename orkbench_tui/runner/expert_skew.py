"""How unevenly a model's router uses its experts, and what a cache of experts would gain: pure arithmetic.

A trace is the experts each token took in each layer, integers [layers, tokens, used].
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from orkbench_tui.errors import RefusedError

__all__ = [
    "CacheRow",
    "cache_rows",
    "expert_counts",
    "gini",
    "global_pin_hit_rate",
    "layer_ginis",
    "lru_hit_rate",
    "pinned_hit_rate",
    "read_choices",
]

Integers = NDArray[np.int64]
SHARES = (0.05, 0.10, 0.20, 0.50)
"""Shares of a layer's experts a cache is looked at for."""


def read_choices(
    buffer: NDArray[np.int32], tokens: int, used: int, strides: tuple[int, int]
) -> NDArray[np.int32]:
    """The first ``used`` experts of every token out of a view of a larger array, copied [tokens, used].

    ``strides`` are in elements, for a step in tokens and in choices. A top-k is often a view into a whole sort
    [tokens, experts]: its rows are then ``experts`` apart and not ``used``, and read as one run of numbers it
    holds every expert about equally often.

    Raises:
        RefusedError: strides under which tokens overlap, or that leave the buffer.
    """
    flat = buffer.reshape(-1)
    row, step = strides
    last = (tokens - 1) * row + (used - 1) * step
    if min(row, step) < 1 or tokens < 1 or used < 1 or row < (used - 1) * step + 1 or last >= flat.size:
        raise RefusedError(
            "the experts' choices cannot be read",
            why=f"{tokens} rows of {used} with strides {row} and {step} in {flat.size} numbers",
            do="give the strides of the array the choices are a view of",
        )
    return flat[np.arange(tokens)[:, None] * row + np.arange(used) * step].copy()


def expert_counts(trace: NDArray[np.int32], experts: int) -> Integers:
    """How often each expert was taken, [layers, experts]."""
    return np.stack([np.bincount(layer.reshape(-1), minlength=experts) for layer in trace]).astype(np.int64)


def gini(counts: Sequence[int] | Integers) -> float:
    """0 where all are taken equally often, towards 1 where one is taken always; 0 for no selections."""
    ordered = np.sort(np.asarray(counts, np.float64))
    total, n = ordered.sum(), ordered.size
    if total == 0:
        return 0.0
    return float(((2 * np.arange(1, n + 1) - n - 1) * ordered).sum() / (n * total))


def layer_ginis(counts: Integers) -> list[float]:
    """One for each layer."""
    return [gini(layer) for layer in counts]


def pinned_hit_rate(counts: Integers, capacity: int) -> float:
    """Share of selections that the ``capacity`` most taken experts of their layer cover."""
    best = np.sort(counts, axis=1)[:, ::-1][:, :capacity]
    return float(best.sum() / max(counts.sum(), 1))


def global_pin_hit_rate(counts: Integers, capacity: int) -> float:
    """Share of selections covered when the same ``capacity`` experts, the most taken of all, are held in every layer."""
    best = np.argsort(-counts.sum(axis=0), kind="stable")[:capacity]
    return float(counts[:, best].sum() / max(counts.sum(), 1))


def lru_hit_rate(trace: NDArray[np.int32], capacity: int) -> float:
    """Share of selections found in a cache of the ``capacity`` experts used last, one cache a layer, empty at first."""
    hits = 0
    for layer in trace:
        cache: OrderedDict[int, None] = OrderedDict()
        for expert in layer.reshape(-1).tolist():
            if expert in cache:
                hits += 1
                cache.move_to_end(expert)
                continue
            cache[expert] = None
            if len(cache) > capacity:
                cache.popitem(last=False)
    return hits / max(trace.size, 1)


@dataclass(frozen=True, slots=True)
class CacheRow:
    """A cache of ``capacity`` experts a layer: its bytes over all layers, and the share of selections it serves."""

    capacity: int
    cache_bytes: int
    pinned: float
    global_pin: float
    lru: float


def cache_rows(trace: NDArray[np.int32], experts: int, expert_bytes: int) -> list[CacheRow]:
    """One for each of ``SHARES`` of the experts, rounded, at least one; ``expert_bytes`` are of one expert's weights."""
    counts = expert_counts(trace, experts)
    capacities = sorted({max(1, round(share * experts)) for share in SHARES})
    return [
        CacheRow(
            capacity,
            capacity * len(trace) * expert_bytes,
            pinned_hit_rate(counts, capacity),
            global_pin_hit_rate(counts, capacity),
            lru_hit_rate(trace, capacity),
        )
        for capacity in capacities
    ]
