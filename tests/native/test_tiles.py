"""Weights to tiles: layout, rounding, padding, independence of threads and instruction set."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orkbench_tui.native.tiles import inflate_tiles, pack_tiles, padded, quantize_weights
from tests.native.kernel_oracle import quantized, same_every_way, untiled

sizes = st.integers(1, 100)


def test_a_byte_lies_where_the_layout_says() -> None:
    n, k = 70, 100
    codes = np.random.default_rng(1).integers(-128, 128, (n, k), dtype=np.int8)
    tiles = pack_tiles(codes)
    K = padded(k)
    for row, column in ((0, 0), (31, 31), (32, 0), (0, 32), (33, 65), (69, 99)):
        at = row // 32 * 32 * K + column // 32 * 1024 + row % 32 * 32 + column % 32
        assert tiles[at] == codes[row, column]


@settings(max_examples=40, deadline=None)
@given(sizes, sizes, st.integers(0, 2**32 - 1))
def test_packing_keeps_codes_and_pads_with_zeros(n: int, k: int, seed: int) -> None:
    codes = np.random.default_rng(seed).integers(-128, 128, (n, k), dtype=np.int8)
    tiles = same_every_way(lambda threads: pack_tiles(codes, threads=threads))
    matrix = untiled(tiles, n, k)
    assert np.array_equal(matrix[:n, :k], codes)
    assert not matrix[n:].any() and not matrix[:, k:].any()


@settings(max_examples=40, deadline=None)
@given(sizes, sizes, st.integers(0, 2**32 - 1), st.sampled_from([1e-30, 1e-3, 1.0, 1e30]))
def test_quantizing_follows_the_scheme(n: int, k: int, seed: int, size: float) -> None:
    weights = (np.random.default_rng(seed).standard_normal((n, k)) * size).astype(np.float32)
    weights[n // 2] = 0
    codes, scales = quantized(weights)
    tiles = same_every_way(lambda threads: quantize_weights(weights, threads=threads)[0])
    assert np.array_equal(untiled(tiles, n, k)[:n, :k], codes)
    assert np.array_equal(quantize_weights(weights)[1], scales)


def test_halves_round_away_from_zero_and_just_below_does_not() -> None:
    below = np.nextafter(np.float32(0.5), np.float32(0))
    weights = np.array([[127, 0.5, -0.5, 1.5, -1.5, 2.5, below, -below, 126.5]], dtype=np.float32)
    tiles, scales = quantize_weights(weights)
    assert scales[0] == 1
    assert untiled(tiles, 1, 9)[0, :9].tolist() == [127, 1, -1, 2, -2, 3, 0, 0, 127]


@pytest.mark.parametrize("strange", [np.nan, np.inf, -np.inf])
def test_a_row_that_is_not_finite_says_so_in_its_scale(strange: float) -> None:
    weights = np.ones((3, 40), dtype=np.float32)
    weights[1, 37] = strange
    tiles, scales = quantize_weights(weights)
    assert np.isnan(scales).tolist() == [False, True, False]
    assert not untiled(tiles, 3, 40)[1].any()


def test_the_smallest_floats_stay_within_127() -> None:
    weights = np.array([[2.6e-43, -2.6e-43, 1.4e-45], [1e-44, 0, 0]], dtype=np.float32)
    tiles, scales = quantize_weights(weights)
    codes = untiled(tiles, 2, 3)[:2, :3]
    assert codes[0, 0] == 127 and codes[0, 1] == -127
    assert scales[1] == 1 and not codes[1].any()


def test_wrong_arrays_are_refused() -> None:
    with pytest.raises(ValueError, match="weights must be a contiguous float32"):
        quantize_weights(np.ones((4, 4)))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="codes must be a contiguous int8"):
        pack_tiles(np.ones((4, 8), np.int8)[:, ::2])
    with pytest.raises(ValueError, match="tiles must be"):
        pack_tiles(np.ones((4, 8), np.int8), out=np.empty(100, np.int8))


@settings(max_examples=40, deadline=None)
@given(
    st.integers(1, 70), st.sampled_from([(64, 32), (96, 32), (128, 128), (64, 0)]), st.integers(0, 2**32 - 1)
)
def test_inflating_is_levels_times_multipliers(n: int, widths: tuple[int, int], seed: int) -> None:
    k, group = widths
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, 16, (n, k))
    nibbles = (codes[:, ::2] | codes[:, 1::2] << 4).astype(np.uint8)
    levels = np.sort(rng.integers(-128, 128, 16)).astype(np.int8)
    expected = levels.astype(np.int64)[codes]
    multipliers = None
    if group:
        multipliers = rng.integers(-127, 128, (n, k // group)).astype(np.int8)
        expected = (expected * np.repeat(multipliers.astype(np.int64), group, axis=1) + 64) >> 7
    tiles = same_every_way(lambda threads: inflate_tiles(nibbles, levels, multipliers, threads=threads))
    assert np.array_equal(tiles, pack_tiles(expected.astype(np.int8)))


def test_rows_that_are_no_whole_tiles_are_not_inflated() -> None:
    with pytest.raises(ValueError, match="no whole tiles"):
        inflate_tiles(np.zeros((4, 8), np.uint8), np.zeros(16, np.int8))
