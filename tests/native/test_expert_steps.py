"""A feed-forward of experts: the choice, the slots, products by expert, the sum; the same bits any way."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orkbench_tui.native.expert_steps import Routing, combine, gather, products, route
from orkbench_tui.native.library import portable_kernels
from orkbench_tui.native.steps import Codes, Steps
from tests.reference import w8a8

SHAPES = st.tuples(
    st.integers(1, 40), st.integers(1, 9), st.sampled_from([32, 72]), st.sampled_from([32, 50])
)


def routed(x: np.ndarray, router: np.ndarray, used: int, threads: int = 2) -> Routing:
    routing, steps = Routing.of(len(x), len(router), used), Steps()
    route(steps, x, router, routing)
    steps.run(len(x), 0, threads)
    return routing


@settings(max_examples=40, deadline=None)
@given(SHAPES, st.integers(0, 1000), st.data())
def test_the_best_experts_are_chosen_and_their_shares_sum_to_one(
    shape: tuple[int, int, int, int], seed: int, data: st.DataObject
) -> None:
    rows, experts, width, _ = shape
    used = data.draw(st.integers(1, experts))
    rng = np.random.default_rng(seed)
    x, router = rng.standard_normal((rows, width)), rng.standard_normal((experts, width))
    routing = routed(x.astype(np.float32), router.astype(np.float32), used)
    scores = x @ router.T
    chances = np.exp(scores - scores.max(axis=1, keepdims=True))
    chances /= chances.sum(axis=1, keepdims=True)
    best = -np.sort(-chances, axis=1)[:, :used]
    np.testing.assert_allclose(np.take_along_axis(chances, routing.chosen.astype(int), 1), best, rtol=1e-4)
    np.testing.assert_allclose(routing.shares, best / best.sum(axis=1, keepdims=True), rtol=1e-4)
    assert all(len(set(row)) == used for row in routing.chosen.tolist())
    # Slots: every one once, those of an expert together and in the order of rows.
    assert sorted(routing.slots.reshape(-1)) == list(range(rows * used))
    for expert in range(experts):
        wanted = routing.slots[routing.chosen == expert].tolist()
        assert wanted == list(range(routing.offsets[expert], routing.offsets[expert + 1]))


def test_of_equal_experts_the_first_is_chosen() -> None:
    routing = routed(np.ones((2, 32), np.float32), np.ones((5, 32), np.float32), 3)
    assert routing.chosen.tolist() == [[0, 1, 2]] * 2
    np.testing.assert_allclose(routing.shares, 1 / 3)


def test_a_choice_far_above_the_others_takes_everything() -> None:
    router = np.zeros((4, 32), np.float32)
    router[2] = 100
    routing = routed(np.ones((1, 32), np.float32), router, 2)
    assert routing.chosen[0, 0] == 2
    np.testing.assert_allclose(routing.shares, [[1, 0]], atol=1e-30)


def mixed(x: np.ndarray, routing: Routing, weights: list[np.ndarray], threads: int) -> np.ndarray:
    """Rows through one projection of their experts, weighted and summed, by the steps."""
    rows, k = x.shape
    padded, slots = -(-k // 32) * 32, rows * routing.used
    codes = Codes(np.zeros((rows, padded), np.int8), np.ones(rows, np.float32))
    grouped = Codes(np.zeros((slots, padded), np.int8), np.ones(slots, np.float32))
    quantized = [w8a8.quantize(weight) for weight in weights]
    packed = [(w8a8.tile(weight), scales) for weight, scales in quantized]
    results, out = (
        np.zeros((slots, len(weights[0])), np.float32),
        np.ones((rows, len(weights[0])), np.float32),
    )
    steps = Steps()
    steps.quantize(x, codes)
    gather(steps, codes, grouped, routing)
    products(steps, grouped, packed, results, routing)
    combine(steps, results, out, routing)
    steps.run(rows, 0, threads)
    return out


@settings(max_examples=25, deadline=None)
@given(SHAPES, st.integers(0, 1000), st.data())
def test_products_by_expert_are_those_of_every_row_alone(
    shape: tuple[int, int, int, int], seed: int, data: st.DataObject
) -> None:
    rows, experts, k, n = shape
    used = data.draw(st.integers(1, experts))
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((rows, k)).astype(np.float32)
    router = rng.standard_normal((experts, k)).astype(np.float32)
    weights = [rng.standard_normal((n, k)).astype(np.float32) for _ in range(experts)]
    routing = routed(x, router, used)
    got = mixed(x, routing, weights, 2)
    x_codes, x_scales = w8a8.quantize(x)
    expected = np.ones((rows, n), np.float32)
    for row in range(rows):
        for choice, share in zip(routing.chosen[row], routing.shares[row], strict=True):
            codes, scales = w8a8.quantize(weights[choice])
            sums = w8a8.accumulate(x_codes[row : row + 1], codes)[0].astype(np.float32)
            expected[row] += share * (sums * (x_scales[row] * scales))
    assert got.tobytes() == expected.tobytes()
    assert mixed(x, routing, weights, 1).tobytes() == got.tobytes()
    with portable_kernels():
        again = routed(x, router, used)
        assert again.shares.tobytes() == routing.shares.tobytes()
        assert mixed(x, again, weights, 3).tobytes() == got.tobytes()
    one = np.concatenate([mixed(row[None], routed(row[None], router, used), weights, 1) for row in x])
    assert one.tobytes() == got.tobytes()


def test_quantizing_parts_of_a_row_is_quantizing_rows() -> None:
    x = np.random.default_rng(3).standard_normal((6, 40)).astype(np.float32)
    whole = Codes(np.zeros((6, 64), np.int8), np.zeros(6, np.float32))
    parts = Codes(np.ones((6, 64), np.int8), np.zeros(6, np.float32))
    steps = Steps()
    steps.quantize(x, whole)
    steps.run(6)
    steps = Steps()
    steps.quantize(x.reshape(2, 120), parts, groups=3)
    assert steps.rows == 2
    steps.run(2)
    assert parts.values.tobytes() == whole.values.tobytes()
    assert parts.scales.tobytes() == whole.scales.tobytes()


def test_arrays_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="4 of 3 experts"):
        Routing.of(2, 3, 4)
    routing, steps = Routing.of(2, 3, 2), Steps()
    with pytest.raises(ValueError, match="router"):
        route(steps, np.ones((2, 32), np.float32), np.ones((4, 32), np.float32), routing)
    codes = Codes(np.zeros((4, 32), np.int8), np.ones(4, np.float32))
    weight = (np.zeros(1024, np.int8), np.ones(32, np.float32))
    with pytest.raises(ValueError, match="2 weights for 3 experts"):
        products(steps, codes, [weight] * 2, np.zeros((4, 32), np.float32), routing)
    with pytest.raises(ValueError, match="tiles"):
        products(
            steps, codes, [(np.zeros(512, np.int8), weight[1])] * 3, np.zeros((4, 32), np.float32), routing
        )
