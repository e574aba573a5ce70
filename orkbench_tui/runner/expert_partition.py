"""Which experts of a pass would go to the NPU if some were resident there, and what that would come to.

The engine keeps all of them on the CPU. This answers what another policy would have given, on a real trace.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from orkbench_tui.driver.timing.constants import value
from orkbench_tui.runner.expert_floor import PROJECTIONS
from orkbench_tui.runner.expert_skew import expert_counts

__all__ = ["PartitionPolicy", "Partitioned", "Side", "Split", "partition", "place_experts"]


class Side(StrEnum):
    CPU = "cpu"
    NPU = "npu"
    IDLE = "idle"


@dataclass(frozen=True, slots=True)
class PartitionPolicy:
    """``npu`` switches the NPU on at all. ``least_rows``: fewer go to the CPU. ``resident`` is how many experts of
    each layer the NPU holds, the most taken ones."""

    npu: bool = False
    least_rows: int = 8
    resident: int = 0


@dataclass(frozen=True, slots=True)
class Split:
    """Where one expert goes in one pass, and why."""

    side: Side
    why: str


@dataclass(frozen=True, slots=True)
class Partitioned:
    """Of one prompt: choices served by each side, submits for the NPU's, and their floor in seconds (predicted)."""

    npu_choices: int
    cpu_choices: int
    submits: int
    floor_s: float


def place_experts(
    rows: NDArray[np.integer], resident: frozenset[int], policy: PartitionPolicy
) -> tuple[Split, ...]:
    """One for each expert; ``rows`` [experts] is how many rows of the pass chose it."""
    return tuple(_split(int(count), expert in resident, policy) for expert, count in enumerate(rows))


def _split(rows: int, resident: bool, policy: PartitionPolicy) -> Split:
    if rows == 0:
        return Split(Side.IDLE, "no row chose it")
    if not policy.npu:
        return Split(Side.CPU, "experts run on the CPU")
    if rows < policy.least_rows:
        return Split(Side.CPU, f"{rows} rows, a submit pays from {policy.least_rows}")
    if not resident:
        return Split(Side.CPU, "not among the resident ones")
    return Split(Side.NPU, f"{rows} rows, resident")


def partition(trace: NDArray[np.int32], experts: int, policy: PartitionPolicy) -> Partitioned:
    """``trace`` [layers, tokens, used] as one pass; the most taken experts of each layer are the resident ones."""
    counts = expert_counts(trace, experts)
    npu = submits = 0
    for layer in counts:
        hot = np.argsort(-layer, kind="stable")[: policy.resident]
        splits = place_experts(layer, frozenset(hot.tolist()), policy)
        taken = [rows for rows, split in zip(layer.tolist(), splits, strict=True) if split.side is Side.NPU]
        npu += sum(taken)
        submits += PROJECTIONS * len(taken)
    return Partitioned(npu, int(trace.size) - npu, submits, submits * value("expert_floor") / 1e9)
