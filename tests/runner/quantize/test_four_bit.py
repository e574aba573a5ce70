"""4-bit weights that run as int8: what is stored is what is multiplied, and how near it comes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orkbench_tui.native.rotation import rotated_in_numpy
from orkbench_tui.native.tiles import inflate_tiles, pack_tiles
from orkbench_tui.runner.quantize.arms import ARMS, rotated_hessian
from orkbench_tui.runner.quantize.four_bit import four_bit, gptq_four_bit, group_steps, nibble_levels
from orkbench_tui.runner.quantize.gptq import gptq_int4, hessian_of, weighted_error
from orkbench_tui.runner.quantize.int4 import importance_cost, nf4, q4_0, uniform_int4
from orkbench_tui.runner.quantize.matmul_error import (
    frobenius_error,
    harness_activations,
    matmul_errors,
    quantized_rows,
)


def heavy(seed: int, n: int, k: int) -> np.ndarray:
    """Weights with the long tails real ones have."""
    return np.random.default_rng(seed).standard_t(5, (n, k)).astype(np.float32)


@settings(max_examples=30, deadline=None)
@given(
    st.integers(1, 40),
    st.sampled_from([32, 64, 96]),
    st.sampled_from(["uniform", "nf4"]),
    st.sampled_from([32, 0]),
    st.integers(0, 2**32 - 1),
)
def test_the_stored_nibbles_inflate_to_what_is_multiplied(
    n: int, k: int, kind: str, group: int, seed: int
) -> None:
    weights = heavy(seed, n, k)
    weights[n // 2] = 0
    got = four_bit(weights, kind, group)  # type: ignore[arg-type]
    tiles = inflate_tiles(got.nibbles, nibble_levels(got.kind), got.multipliers)
    np.testing.assert_array_equal(tiles, pack_tiles(np.ascontiguousarray(got.int8)))
    assert (got.scales > 0).all() and not got.values[n // 2].any()
    assert (got.multipliers is None) == (group == 0 or group == k)


def test_the_sixteenth_code_is_used_and_the_sign_is_that_of_the_largest() -> None:
    ramp = np.arange(-8, 8, dtype=np.float32)
    steps = group_steps(np.stack((ramp, -ramp)))
    assert steps == pytest.approx([1.0, -1.0])
    assert group_steps(np.zeros((1, 16), np.float32)).tolist() == [0.0]


@pytest.mark.parametrize("seed", range(3))
def test_the_search_is_better_than_absmax_and_than_q4_0(seed: int) -> None:
    weights = heavy(seed, 128, 512)
    got = frobenius_error(weights, four_bit(weights).values.astype(np.float64))
    assert got < frobenius_error(weights, uniform_int4(weights, 32).values)
    assert got < 1.02 * frobenius_error(weights, q4_0(weights))


def test_the_codebook_with_groups_is_better_than_with_one_scale_a_row() -> None:
    weights = heavy(4, 128, 512)
    grouped = frobenius_error(weights, four_bit(weights, "nf4", 32).values.astype(np.float64))
    assert grouped < frobenius_error(weights, nf4(weights).values)


@pytest.mark.parametrize("seed", range(3))
def test_rotated_w4a8_is_within_a_tenth_of_q4_0(seed: int) -> None:
    errors = matmul_errors(heavy(seed, 256, 768))
    assert errors["w4a8-g32-rot"].relative < 1.10 * errors["q4_0 (ggml)"].relative


def test_importance_lowers_its_own_cost_on_the_whole() -> None:
    rng = np.random.default_rng(0)
    weights, importance = heavy(5, 64, 256), np.exp(rng.standard_normal(256) * 2)
    plain = importance_cost(weights, four_bit(weights).values.astype(np.float64), importance)
    weighed = importance_cost(
        weights, four_bit(weights, importance=importance).values.astype(np.float64), importance
    )
    assert weighed.sum() < 0.9 * plain.sum()
    equal = four_bit(weights, importance=np.full(256, 3.0))
    np.testing.assert_array_equal(equal.codes, four_bit(weights).codes)


@pytest.mark.parametrize("bad", [[1.0] * 63 + [-1.0], [float("nan")] * 64, [1.0] * 32])
def test_impossible_importance(bad: list[float]) -> None:
    with pytest.raises(ValueError, match="importance must be"):
        four_bit(heavy(0, 4, 64), importance=np.array(bad))


def test_weights_that_are_no_numbers() -> None:
    weights = heavy(0, 4, 64)
    weights[1, 2] = np.nan
    with pytest.raises(ValueError, match="not a finite"):
        four_bit(weights)
    with pytest.raises(ValueError, match="do not divide"):
        four_bit(heavy(0, 4, 48))


def correlated(seed: int, rows: int, k: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    mixing = rng.standard_normal((k // 4, k))
    return rng.standard_normal((rows, k // 4)) @ mixing + 0.3 * rng.standard_normal((rows, k))


@pytest.mark.parametrize("rotate", [False, True])
def test_gptq_with_groups_and_rotation_beats_rounding_on_products(rotate: bool) -> None:
    weights, inputs = heavy(6, 48, 256), correlated(7, 2000, 256)
    hessian = (hessian_of(inputs) / len(inputs)).astype(np.float32)
    turned, own = weights, hessian
    if rotate:
        turned, own = rotated_in_numpy(weights, 128), rotated_hessian(hessian)
        inputs = rotated_in_numpy(inputs, 128)
        np.testing.assert_allclose(own, hessian_of(inputs) / len(inputs), rtol=1e-3, atol=1e-2)
    rounded = weighted_error(turned, four_bit(turned).values.astype(np.float64), own.astype(np.float64))
    spread = weighted_error(
        turned, gptq_four_bit(turned, own).values.astype(np.float64), own.astype(np.float64)
    )
    assert spread < 0.6 * rounded
    exact = inputs @ turned.T.astype(np.float64)
    products = [
        float(np.linalg.norm(inputs @ w.values.T.astype(np.float64) - exact))
        for w in (four_bit(turned), gptq_four_bit(turned, own))
    ]
    assert products[1] < products[0]


def test_gptq_without_correlation_changes_little_and_its_block_nothing() -> None:
    weights = heavy(8, 16, 128)
    got = gptq_four_bit(weights, np.eye(128), 32)
    error = frobenius_error(weights, got.values.astype(np.float64))
    # Its rows keep room for errors that arrive; none do.
    assert error < 1.05 * frobenius_error(weights, four_bit(weights).values.astype(np.float64))
    hessian = hessian_of(correlated(9, 500, 128))
    one, other = (gptq_four_bit(weights, hessian, 32, block=block) for block in (32, 128))
    np.testing.assert_array_equal(one.codes, other.codes)


def test_every_arm_keeps_products_and_the_published_order_holds() -> None:
    class Known:
        def __init__(self, inputs: np.ndarray) -> None:
            self.own = (hessian_of(inputs) / len(inputs)).astype(np.float32)

        def squares(self, weight: str) -> np.ndarray:
            return np.diag(self.own)

        def hessian(self, weight: str) -> np.ndarray:
            return self.own

    weights = heavy(10, 64, 256)
    inputs = harness_activations(256, rows=512).astype(np.float32)
    exact = inputs @ weights.T
    errors = {}
    for name, arm in ARMS.items():
        got = (
            arm.inputs(inputs, "blk.0.ffn_up.weight")
            @ arm.weights(weights, "blk.0.ffn_up.weight", Known(inputs)).T
        )
        errors[name] = float(np.linalg.norm(got - exact) / np.linalg.norm(exact))
    assert errors["w4a4"] > errors["w4a4-g32"] > errors["w4a4-g32-rot"] > errors["w4a8-g32-rot"]
    assert errors["w8a8-rot"] < errors["w8a8"] < errors["w4a8-g32-rot"] < 1.1 * errors["q4_0"]
    assert max(errors.values()) < 1


@settings(max_examples=30, deadline=None)
@given(st.sampled_from([4, 8]), st.sampled_from([0, 32]), st.integers(0, 2**32 - 1))
def test_rounded_inputs_are_within_half_a_step(bits: int, group: int, seed: int) -> None:
    rows = np.random.default_rng(seed).standard_normal((3, 64))
    parts = rows.reshape(3, -1, group or 64)
    step = np.abs(parts).max(axis=2, keepdims=True) / ((1 << bits - 1) - 1)
    off = np.abs(quantized_rows(rows, bits, group).reshape(parts.shape) - parts)
    assert (off <= step / 2 + 1e-9).all()


def test_rotation_cuts_the_error_of_four_bits_more_the_larger_the_outliers() -> None:
    rng = np.random.default_rng(0)
    weights = rng.standard_normal((256, 2048))
    exact_rows = rng.standard_normal((8, 2048))
    cuts = []
    for outlier in (1, 5, 20):
        rows = exact_rows.copy()
        rows[:, ::97] *= outlier
        exact = rows @ weights.T
        plain, turned = (
            float(np.linalg.norm(quantized_rows(a, 4, 128) @ uniform_int4(w, 128).values.T - exact))
            for a, w in ((rows, weights), (rotated_in_numpy(rows, 128), rotated_in_numpy(weights, 128)))
        )
        cuts.append(1 - turned / plain)
    assert cuts[0] < cuts[1] < cuts[2] and 0.4 < cuts[2] < 0.7


@pytest.mark.parametrize("seed", range(3))
def test_granularity_and_gptq_order_as_published(seed: int) -> None:
    """Groups of 32 by GPTQ, one a channel by GPTQ, groups of 32 to the nearest, one a channel to the nearest."""
    weights, inputs = heavy(seed, 48, 256).astype(np.float64), correlated(seed + 20, 2000, 256)
    hessian = hessian_of(inputs)
    errors = [
        weighted_error(weights, values, hessian)
        for values in (
            gptq_int4(weights, hessian, 32).values,
            gptq_int4(weights, hessian).values,
            uniform_int4(weights, 32, native=True).values,
            uniform_int4(weights, native=True).values,
        )
    ]
    assert errors == sorted(errors)
