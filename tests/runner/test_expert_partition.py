"""Experts between CPU and NPU: the policy's rules one by one, and on traces."""

from __future__ import annotations

import numpy as np
import pytest

from orkbench_tui.driver.timing.constants import value
from orkbench_tui.runner.expert_partition import PartitionPolicy, Side, partition, place_experts
from orkbench_tui.runner.expert_skew import expert_counts, pinned_hit_rate

EVERYTHING = PartitionPolicy(npu=True, least_rows=1, resident=16)


def trace(seed: int, layers: int = 3, tokens: int = 60, used: int = 4, experts: int = 16) -> np.ndarray:
    """Skewed, with other favourites in every layer."""
    rng = np.random.default_rng(seed)
    weights = 1 / np.arange(1, experts + 1)
    return np.stack(
        [
            np.stack(
                [rng.choice(rng_order, used, replace=False, p=weights / weights.sum()) for _ in range(tokens)]
            )
            for rng_order in [rng.permutation(experts) for _ in range(layers)]
        ]
    ).astype(np.int32)


def test_unless_switched_on_everything_stays_on_the_cpu() -> None:
    splits = place_experts(np.array([0, 1, 500]), frozenset({0, 1, 2}), PartitionPolicy())
    assert [split.side for split in splits] == [Side.IDLE, Side.CPU, Side.CPU]
    found = partition(trace(0), 16, PartitionPolicy())
    assert (found.npu_choices, found.submits, found.floor_s) == (0, 0, 0)
    assert found.cpu_choices == 3 * 60 * 4


def test_few_rows_and_what_is_not_resident_stay_too() -> None:
    policy = PartitionPolicy(npu=True, least_rows=8, resident=2)
    splits = place_experts(np.array([7, 8, 9, 0]), frozenset({0, 1, 3}), policy)
    assert [split.side for split in splits] == [Side.CPU, Side.NPU, Side.CPU, Side.IDLE]
    assert "7 rows" in splits[0].why and "not among" in splits[2].why and "8 rows" in splits[1].why


@pytest.mark.parametrize("seed", range(5))
def test_every_choice_is_served_once(seed: int) -> None:
    taken = trace(seed)
    for policy in (EVERYTHING, PartitionPolicy(True, 8, 16), PartitionPolicy(True, 1, 3), PartitionPolicy()):
        found = partition(taken, 16, policy)
        assert found.npu_choices + found.cpu_choices == taken.size
        assert found.floor_s == pytest.approx(found.submits * value("expert_floor") / 1e9)
    whole = partition(taken, 16, EVERYTHING)
    assert whole.cpu_choices == 0
    assert whole.submits == 3 * int((expert_counts(taken, 16) > 0).sum())


@pytest.mark.parametrize("seed", range(5))
def test_the_resident_ones_are_the_most_taken_of_each_layer(seed: int) -> None:
    """With every row count allowed, what the NPU serves is the hit rate of a pin for each layer."""
    taken = trace(seed)
    counts = expert_counts(taken, 16)
    shares = []
    for resident in (1, 2, 4, 8):
        found = partition(taken, 16, PartitionPolicy(True, 1, resident))
        shares.append(found.npu_choices / taken.size)
        assert shares[-1] == pytest.approx(pinned_hit_rate(counts, resident))
    assert shares == sorted(shares) and shares[-1] < 1


def test_a_token_alone_never_pays_for_a_submit() -> None:
    one = trace(1, tokens=1)
    assert partition(one, 16, PartitionPolicy(True, 8, 16)).submits == 0
    assert partition(one, 16, EVERYTHING).submits == 3 * 3 * 4
