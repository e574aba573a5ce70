"""int8 products on tiles: exact sums, one way of scaling back."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orkbench_tui.native.steps import Codes, Steps
from orkbench_tui.native.tiles import pack_tiles, padded
from tests.native.kernel_oracle import quantized, same_every_way


def as_codes(values: np.ndarray, scales: np.ndarray) -> Codes:
    room = np.zeros((len(values), padded(values.shape[1])), np.int8)
    room[:, : values.shape[1]] = values
    return Codes(room, scales.astype(np.float32))


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 40), st.integers(1, 100), st.integers(1, 130), st.integers(0, 2**32 - 1))
def test_every_sum_is_exact(rows: int, n: int, k: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    weights = rng.integers(-128, 128, (n, k), dtype=np.int8)
    a = rng.integers(-127, 128, (rows, k), dtype=np.int8)
    output = np.zeros((rows, n), np.float32)
    steps = Steps()
    steps.matmul(as_codes(a, np.ones(rows)), pack_tiles(weights), np.ones(n, np.float32), output)

    def run(threads: int) -> np.ndarray:
        output[:] = -1
        steps.run(rows, threads=threads)
        return output

    assert np.array_equal(same_every_way(run), (a.astype(int) @ weights.astype(int).T).astype(np.float32))


@pytest.mark.parametrize("weight", [127, -127, -128])
@pytest.mark.parametrize("code", [127, -127])
@pytest.mark.parametrize("rows", [1, 2, 3, 4, 5])
def test_extremes_do_not_saturate(weight: int, code: int, rows: int) -> None:
    k = 4096
    output = np.zeros((rows, 32), np.float32)
    steps = Steps()
    tiles = pack_tiles(np.full((32, k), weight, np.int8))
    codes = as_codes(np.full((rows, k), code, np.int8), np.ones(rows))
    steps.matmul(codes, tiles, np.ones(32, np.float32), output)

    def run(threads: int) -> np.ndarray:
        steps.run(rows, threads=threads)
        return output

    assert (same_every_way(run) == np.float32(weight * code * k)).all()


@pytest.mark.parametrize("accumulate", [False, True])
@pytest.mark.parametrize("with_bias", [False, True])
def test_scaling_back_is_one_formula_for_both_kinds_of_sums(accumulate: bool, with_bias: bool) -> None:
    rng = np.random.default_rng(7)
    rows, n, k = 5, 70, 96
    a, a_scales = quantized(rng.standard_normal((rows, k)).astype(np.float32))
    w, w_scales = quantized(rng.standard_normal((n, k)).astype(np.float32))
    bias = rng.standard_normal(n).astype(np.float32) if with_bias else None
    before = rng.standard_normal((rows, n)).astype(np.float32)
    sums = a.astype(np.int32) @ w.astype(np.int32).T

    expected = sums.astype(np.float32) * (a_scales[:, None] * w_scales)
    expected = expected if bias is None else expected + bias
    expected = before + expected if accumulate else expected

    codes = as_codes(a, a_scales)
    by_matmul, by_sums = before.copy(), before.copy()
    wide = np.full((rows, padded(n) + 32), 99, np.int32)
    wide[:, :n] = sums
    steps = Steps()
    steps.matmul(codes, pack_tiles(w), w_scales, by_matmul, bias=bias, accumulate=accumulate)
    steps.dequantize(wide, codes.scales, w_scales, by_sums, bias=bias, accumulate=accumulate)
    steps.run(rows)
    assert np.array_equal(by_matmul, expected)
    assert np.array_equal(by_sums, expected)


def test_rows_beyond_the_run_are_left_alone() -> None:
    output = np.full((4, 32), 5, np.float32)
    steps = Steps()
    codes = as_codes(np.ones((4, 32), np.int8), np.ones(4))
    steps.matmul(codes, pack_tiles(np.ones((32, 32), np.int8)), np.ones(32, np.float32), output)
    steps.run(2)
    assert (output[:2] == 32).all() and (output[2:] == 5).all()
    output[:] = 5
    steps.run(0)
    assert (output == 5).all()


def test_arrays_that_do_not_fit_are_refused() -> None:
    codes = as_codes(np.ones((2, 32), np.int8), np.ones(2))
    output = np.zeros((2, 40), np.float32)
    with pytest.raises(ValueError, match="tiles must be"):
        Steps().matmul(codes, np.zeros(32 * 32, np.int8), np.ones(40, np.float32), output)
    with pytest.raises(ValueError, match="matmul output must be"):
        Steps().matmul(codes, np.zeros(64 * 32, np.int8), np.ones(41, np.float32), output)
    with pytest.raises(ValueError, match="adjacent"):
        sums = np.zeros((2, 80), np.int32)[:, ::2]
        Steps().dequantize(sums, codes.scales, np.ones(40, np.float32), output)
