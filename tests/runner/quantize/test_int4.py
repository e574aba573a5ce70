"""4-bit quantizers: published values, exact maths and properties."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orkbench_tui.errors import RefusedError
from orkbench_tui.runner.gguf_types import GgmlType
from orkbench_tui.runner.quantize.gptq import gptq_int4, hessian_of, weighted_error
from orkbench_tui.runner.quantize.int4 import (
    NF4_LUT,
    StochasticRounding,
    clip_search,
    importance_cost,
    nf4,
    q4_0,
    uniform_int4,
)
from orkbench_tui.runner.quantize.matmul_error import frobenius_error, matmul_errors
from orkbench_tui.runner.quantize.tiers import effective_bits, source_stamp, tier_of


def gaussian(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape)


def test_nf4_table() -> None:
    assert NF4_LUT.tolist() == [-127, -88, -67, -50, -36, -23, -12, 0, 10, 20, 31, 43, 56, 71, 92, 127]


def test_reconstruction_of_gaussian_weights() -> None:
    weights = gaussian(0, 256, 4096)  # the figures belong to rows of about this length
    assert frobenius_error(weights, uniform_int4(weights).values) == pytest.approx(0.158, abs=0.002)
    assert frobenius_error(weights, nf4(weights).values) == pytest.approx(0.110, abs=0.002)


def test_nf4_takes_the_nearest_level_and_the_higher_of_two() -> None:
    half = (0.0795803 + 0.0) / 2
    codes = nf4(np.array([[1.0, -1.0, 0.0, half, half - 1e-9, 0.5]])).codes
    assert codes.tolist() == [[15, 0, 7, 8, 7, 12]]


def test_uniform_codes_and_scales() -> None:
    got = uniform_int4(np.array([[7.0, 0.5, -0.5, -6.6], [0, 0, 0, 0]]))
    assert got.codes.tolist() == [[7, 1, -1, -7], [0, 0, 0, 0]]
    assert got.scales.tolist() == [[1.0], [1.0]]
    grouped = uniform_int4(np.array([[7.0, 1.0, 0.7, 0.3]]), 2)
    assert grouped.codes.tolist() == [[7, 1, 7, 3]]
    np.testing.assert_allclose(grouped.scales, [[1.0, 0.1]])


@pytest.mark.parametrize("group", [32, 64, 128, 256, 512])
def test_groups_have_their_own_scales(group: int) -> None:
    weights = gaussian(1, 8, 4096) * np.repeat(np.exp(gaussian(2, 8, 8)), 512, axis=1)
    got = uniform_int4(weights, group)
    assert got.scales.shape == (8, 4096 // group)
    assert frobenius_error(weights, got.values) < frobenius_error(weights, uniform_int4(weights).values)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from([0, 16]))
def test_uniform_error_is_at_most_half_a_step(seed: int, group: int) -> None:
    weights = gaussian(seed, 3, 48)
    got = uniform_int4(weights, group)
    step = np.repeat(got.scales, 48 // got.scales.shape[1], axis=1)
    assert (np.abs(weights - got.values) <= step / 2 * (1 + 1e-12)).all() and np.abs(got.codes).max() <= 7


@pytest.mark.parametrize("quantize", [uniform_int4, nf4, q4_0])
@pytest.mark.parametrize("strange", [np.nan, np.inf])
def test_strange_weights_are_refused(quantize, strange: float) -> None:  # type: ignore[no-untyped-def]
    weights = np.ones((2, 32))
    weights[1, 3] = strange
    with pytest.raises(ValueError, match="finite"):
        quantize(weights)


def test_the_rounding_generator() -> None:
    generator = StochasticRounding()
    words = [generator.next_bits() for _ in range(6)]
    assert words == [0xE124B63A, 0x8B9A74AB, 0x64E1B3AC, 0x00174626, 0xF2ADBBAF, 0xFED75123]
    first = StochasticRounding().uniform((2, 2))
    np.testing.assert_allclose(first, [[0.879466, 0.545326], [0.394069, 0.000355]], atol=1e-6)


@pytest.mark.parametrize("quantize", [uniform_int4, nf4])
def test_stochastic_rounding_costs_rms_and_has_no_bias(quantize) -> None:  # type: ignore[no-untyped-def]
    weights = np.full((1, 4001), 0.3)
    weights[0, 0] = 1.0
    nearest, random = quantize(weights).values, quantize(weights, stochastic=StochasticRounding()).values
    assert abs((random - weights)[0, 1:].mean()) < 0.2 * abs((nearest - weights)[0, 1:].mean())
    assert frobenius_error(weights, random) > frobenius_error(weights, nearest)


@pytest.mark.parametrize("kind", ["uniform", "nf4"])
def test_clip_search_never_costs_more_than_absmax(kind: str) -> None:
    weights, importance = np.random.default_rng(3).standard_t(3, (40, 256)), np.exp(3 * gaussian(4, 256))
    plain = {"uniform": uniform_int4, "nf4": nf4}[kind](weights)
    found, ratio = clip_search(weights, importance, kind)  # type: ignore[arg-type]
    before, after = (importance_cost(weights, q.values, importance) for q in (plain, found))
    assert (after <= before).all() and after.sum() < 0.8 * before.sum()
    assert set(ratio) <= {1.0, 0.92, 0.85, 0.78, 0.70, 0.62, 0.55} and len(set(ratio)) > 2
    without, ones = clip_search(weights, None, kind)  # type: ignore[arg-type]
    assert (without.codes == plain.codes).all() and (ones == 1).all()


@pytest.mark.parametrize("bad", [[-1.0, 1.0], [np.nan, 1.0], [1.0]])
def test_impossible_importance(bad: list[float]) -> None:
    with pytest.raises(ValueError, match="importance"):
        clip_search(np.ones((1, 2)), np.array(bad))


def test_q4_0_is_what_ggml_makes() -> None:
    import gguf

    weights = gaussian(5, 16, 256).astype(np.float32)
    stored = gguf.quants.quantize(weights, gguf.GGMLQuantizationType.Q4_0)
    np.testing.assert_array_equal(
        gguf.quants.dequantize(stored, gguf.GGMLQuantizationType.Q4_0), q4_0(weights).astype(np.float32)
    )


W = np.array([[0.70, 0.34, -0.26, 0.15], [-0.13, 0.66, 0.27, -0.70]])
H = np.array([[1, 0.8, 0.6, 0.4], [0.8, 1, 0.8, 0.6], [0.6, 0.8, 1, 0.8], [0.4, 0.6, 0.8, 1]])


def test_gptq_published_example() -> None:
    got = gptq_int4(W, H)
    assert got.codes.tolist() == [[7, 3, -2, 1], [-1, 6, 3, -7]]
    np.testing.assert_allclose(got.scales, [[0.1], [0.1]])
    nearest = uniform_int4(W, native=True)
    assert nearest.codes.tolist() == [[7, 3, -3, 2], [-1, 7, 3, -7]]
    assert weighted_error(W, nearest.values, H) == pytest.approx(0.01098, abs=1e-5)
    assert weighted_error(W, got.values, H) == pytest.approx(0.00218, abs=1e-5)
    grouped = gptq_int4(W, H, 2)
    assert grouped.codes.tolist() == [[7, 3, -7, 5], [-1, 7, 2, -7]]
    np.testing.assert_allclose(grouped.scales, [[0.1, 0.0322118], [0.0942857, 0.0989799]], atol=1e-6)


def correlated(seed: int, k: int) -> np.ndarray:
    return hessian_of(
        gaussian(seed, 400, k // 4) @ gaussian(seed + 1, k // 4, k) + 0.1 * gaussian(seed + 2, 400, k)
    )


def test_gptq_without_correlation_is_rounding_to_nearest() -> None:
    weights = gaussian(6, 8, 64)
    for group in (0, 16):
        got, nearest = gptq_int4(weights, np.eye(64), group), uniform_int4(weights, group, native=True)
        assert (got.codes == nearest.codes).all()
        np.testing.assert_allclose(got.scales, nearest.scales)


@pytest.mark.parametrize("group", [0, 32])
def test_gptq_beats_rounding_where_inputs_go_together(group: int) -> None:
    weights, hessian = gaussian(7, 32, 128), correlated(8, 128)
    nearest = weighted_error(weights, uniform_int4(weights, group, native=True).values, hessian)
    assert weighted_error(weights, gptq_int4(weights, hessian, group).values, hessian) < 0.6 * nearest


@pytest.mark.parametrize("group", [0, 16])
@pytest.mark.parametrize("block", [1, 7, 24, 96, 1000])
def test_gptq_does_not_depend_on_its_block(group: int, block: int) -> None:
    weights, hessian = gaussian(9, 5, 96), correlated(10, 96)
    expected, got = (gptq_int4(weights, hessian, group, block=size) for size in (96, block))
    assert (got.codes == expected.codes).all()
    np.testing.assert_allclose(got.scales, expected.scales)


def test_gptq_inputs_that_never_occur_and_impossible_hessians() -> None:
    hessian = correlated(11, 32)
    hessian[3, :] = hessian[:, 3] = 0
    assert not gptq_int4(gaussian(12, 4, 32), hessian).codes[:, 3].any()
    with pytest.raises(ValueError, match="positive definite"):
        gptq_int4(gaussian(12, 4, 32), -1e9 * np.eye(32))
    with pytest.raises(ValueError, match="groups of 5"):
        gptq_int4(gaussian(12, 4, 32), np.eye(32), 5)


def test_order_of_the_schemes_at_one_matmul() -> None:
    """Heavy-tailed weights, activations with outliers: each refinement helps, the best is near Q4_0."""
    error = {
        name: e.relative
        for name, e in matmul_errors(np.random.default_rng(13).standard_t(4, (64, 1024))).items()
    }
    assert error["w4a4"] > error["w4a4-g32"] > error["w4a4-g32-rot"] > error["w4a8-g32-rot"]
    assert error["w4a8-g32-rot"] < 1.10 * error["q4_0 (ggml)"]
    assert error["w8a8-rot"] < error["w8a8"] < error["w4a8-g32-rot"]


def test_bits_tiers_and_low_bit_sources() -> None:
    assert effective_bits(GgmlType.Q6_K) == 6.5625 and effective_bits(GgmlType.Q4_K) == 4.5
    tiers = {name: tier_of(GgmlType[name]) for name in ("F16", "Q6_K", "Q4_1", "Q4_0", "Q4_K")}
    assert tiers == {"F16": "int8", "Q6_K": "int8", "Q4_1": "int8", "Q4_0": "int4", "Q4_K": "int4"}
    with pytest.raises(RefusedError, match=r"4\.5 bits.*round it twice"):
        source_stamp("m.gguf", GgmlType.Q4_K, force=False)
    assert source_stamp("m.gguf", GgmlType.Q4_K, force=True)["low_bit_source"] is True
    assert source_stamp("m.gguf", GgmlType.F16, force=False)["low_bit_source"] is False
