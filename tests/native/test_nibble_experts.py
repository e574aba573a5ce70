"""Experts from 4-bit weights: the numbers of the plain decode, the bits of the inflated tiles, any way they run."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orkbench_tui.native.expert_steps import NibbleRows, Routing, nibble_products, products, route
from orkbench_tui.native.steps import Codes, Steps
from orkbench_tui.native.tiles import inflate_tiles
from orkbench_tui.runner.quantize.four_bit import four_bit, nibble_levels
from orkbench_tui.runner.quantize.int4 import NF4_LEVELS, NF4_LUT
from tests.native.kernel_oracle import every_way

Kind = Literal["nf4", "uniform"]


def random_rows(rng: np.random.Generator, kind: Kind, n: int, k: int, group: int) -> NibbleRows:
    """Every nibble and every multiplier a pack can hold."""
    multipliers = rng.integers(-127, 128, (n, k // group)).astype(np.int8) if group else None
    scales = rng.uniform(0.001, 0.1, n).astype(np.float32)
    nibbles = rng.integers(0, 256, (n, k // 2)).astype(np.uint8)
    return NibbleRows(nibbles, nibble_levels(kind), scales, multipliers)


def decoded(weight: NibbleRows) -> np.ndarray:
    """int [N, K] by the rule, in numpy."""
    n, half = weight.nibbles.shape
    codes = np.stack([weight.nibbles & 15, weight.nibbles >> 4], axis=2).reshape(n, 2 * half)
    levels = weight.levels.astype(np.int64)[codes]
    if weight.multipliers is None:
        return levels
    return (levels * np.repeat(weight.multipliers.astype(np.int64), weight.group, axis=1) + 64) >> 7


def routed(rng: np.random.Generator, rows: int, experts: int, used: int) -> Routing:
    routing, steps = Routing.of(rows, experts, used), Steps()
    x, router = rng.standard_normal((rows, 32)), rng.standard_normal((experts, 32))
    route(steps, x.astype(np.float32), router.astype(np.float32), routing)
    steps.run(rows)
    return routing


def slots_of(rng: np.random.Generator, slots: int, k: int) -> Codes:
    codes = rng.integers(-127, 128, (slots, k)).astype(np.int8)
    return Codes(codes, rng.uniform(0.001, 0.1, slots).astype(np.float32))


@settings(max_examples=30, deadline=None)
@given(
    st.tuples(st.integers(1, 40), st.integers(1, 5), st.sampled_from([1, 30, 32, 71])),
    st.sampled_from([(32, 32), (96, 32), (128, 64), (64, 0), (2080, 32), (4160, 0)]),
    st.sampled_from(["nf4", "uniform"]),
    st.integers(0, 1000),
)
def test_products_are_the_decoded_matmul_and_the_bits_of_the_tiles(
    shape: tuple[int, int, int], sizes: tuple[int, int], kind: Kind, seed: int
) -> None:
    (rows, experts, n), (k, group) = shape, sizes
    rng = np.random.default_rng(seed)
    weights = [random_rows(rng, kind, n, k, group) for _ in range(experts)]
    routing = routed(rng, rows, experts, min(2, experts))
    slots = rows * routing.used
    grouped = slots_of(rng, slots, k)
    expected = np.zeros((slots, n), np.float32)
    for expert, weight in enumerate(weights):
        own = slice(routing.offsets[expert], routing.offsets[expert + 1])
        sums = grouped.values[own].astype(np.int64) @ decoded(weight).T
        expected[own] = sums.astype(np.float32) * (grouped.scales[own, None] * weight.scales)
    tiles, steps = np.full((slots, n), np.nan, np.float32), Steps()
    pairs = [(inflate_tiles(w.nibbles, w.levels, w.multipliers), w.scales) for w in weights]
    products(steps, grouped, pairs, tiles, routing)
    steps.run(rows)
    for label, threads, way in every_way():
        got, steps = np.full((slots, n), np.nan, np.float32), Steps()
        with way():
            nibble_products(steps, grouped, weights, got, routing)
            steps.run(rows, 0, threads)
        assert got.tobytes() == expected.tobytes() == tiles.tobytes(), label


def test_extremes_do_not_saturate() -> None:
    rng = np.random.default_rng(0)
    for kind, code in (("nf4", 0x0F), ("nf4", 0xFF), ("uniform", 0x88), ("uniform", 0x87)):
        levels = nibble_levels("nf4" if kind == "nf4" else "uniform")
        for multiplier in (-127, 127):
            nibbles = np.full((32, 1040), code, np.uint8)
            weight = NibbleRows(
                nibbles, levels, np.ones(32, np.float32), np.full((32, 65), multiplier, np.int8)
            )
            codes = Codes(rng.choice([-127, 127], (3, 2080)).astype(np.int8), np.ones(3, np.float32))
            routing = routed(rng, 3, 1, 1)
            for label, threads, way in every_way():
                got, steps = np.zeros((3, 32), np.float32), Steps()
                with way():
                    nibble_products(steps, codes, [weight], got, routing)
                    steps.run(3, 0, threads)
                np.testing.assert_array_equal(
                    got, codes.values.astype(np.int64) @ decoded(weight).T, err_msg=label
                )


def test_nf4_rows_are_near_the_matmul_of_the_weights_they_stand_for() -> None:
    """The codebook's int8 levels keep a product within the error of 4 bits of the float one."""
    rng = np.random.default_rng(2)
    w = rng.standard_normal((64, 256)).astype(np.float32)
    part = four_bit(w, "nf4", 32)
    weight = NibbleRows(part.nibbles, NF4_LUT, part.scales, part.multipliers)
    np.testing.assert_array_equal(decoded(weight), part.int8)
    np.testing.assert_allclose(NF4_LUT / 127, NF4_LEVELS, atol=0.005)
    codes = slots_of(rng, 8, 256)
    got, steps = np.zeros((8, 64), np.float32), Steps()
    nibble_products(steps, codes, [weight], got, routed(rng, 8, 1, 1))
    steps.run(8)
    exact = (codes.values * codes.scales[:, None]) @ w.T
    assert 0.02 < np.linalg.norm(got - exact) / np.linalg.norm(exact) < 0.12


def test_weights_that_do_not_fit_are_refused() -> None:
    rng = np.random.default_rng(1)
    routing, out = routed(rng, 4, 2, 1), np.zeros((4, 32), np.float32)
    codes = slots_of(rng, 4, 64)
    good = random_rows(rng, "nf4", 32, 64, 32)
    with pytest.raises(ValueError, match="1 weights for 2 experts"):
        nibble_products(Steps(), codes, [good], out, routing)
    for other in (
        random_rows(rng, "uniform", 32, 64, 32),
        random_rows(rng, "nf4", 32, 64, 0),
    ):
        with pytest.raises(ValueError, match="differ in levels or groups"):
            nibble_products(Steps(), codes, [good, other], out, routing)
    fine = random_rows(rng, "nf4", 32, 64, 16)
    with pytest.raises(ValueError, match="no whole 32"):
        nibble_products(Steps(), codes, [fine, fine], out, routing)
    with pytest.raises(ValueError, match="nibbles"):
        nibble_products(Steps(), codes, [good, random_rows(rng, "nf4", 30, 64, 32)], out, routing)
