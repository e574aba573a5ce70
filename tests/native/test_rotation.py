"""The Walsh-Hadamard rotation: exact bits on every path, and the algebra that makes it harmless."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orkbench_tui.native.rotation import check_rotation, rotated, rotated_in_numpy, rotation_block
from orkbench_tui.native.steps import Codes, Steps
from orkbench_tui.native.tiles import padded, quantize_weights
from tests.native.kernel_oracle import quantized, same_every_way, untiled


def floats(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def test_the_block_is_the_largest_power_of_two() -> None:
    # Widths of known models and the blocks used for them.
    blocks = {576: 64, 1536: 512, 640: 128, 896: 128, 4864: 256, 4096: 4096, 7: 1}
    assert {width: rotation_block(width) for width in blocks} == blocks


def test_four_values() -> None:
    rows = np.array([[1, 2, 3, 4]], np.float32)
    assert rotated(rows, 4).tolist() == [[5, -1, -2, 0]]
    assert rotated(rows, 1).tolist() == rows.tolist()


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10), st.integers(1, 3), st.integers(1, 4), st.integers(0, 1000))
def test_every_path_has_the_bits_of_numpy(log2: int, blocks: int, rows: int, seed: int) -> None:
    x = floats(seed, rows, blocks << log2)
    got = same_every_way(lambda _threads: rotated(x, 1 << log2))
    assert got.tobytes() == rotated_in_numpy(x, 1 << log2).tobytes()


@pytest.mark.parametrize("block", [1, 2, 8, 64, 1024])
def test_it_is_its_own_inverse_and_keeps_products(block: int) -> None:
    x, y = floats(1, 3, 2048).astype(np.float64), floats(2, 5, 2048).astype(np.float64)
    turned_x, turned_y = rotated_in_numpy(x, block), rotated_in_numpy(y, block)
    np.testing.assert_allclose(rotated_in_numpy(turned_x, block), x, atol=1e-12)
    np.testing.assert_allclose(turned_x @ turned_y.T, x @ y.T, atol=1e-10)


@pytest.mark.parametrize("block", [2, 16, 256])
def test_products_of_integers_are_exactly_block_times_as_large(block: int) -> None:
    rng = np.random.default_rng(3)
    x, y = rng.integers(-127, 128, (2, 4, 512)).astype(np.float64)
    # Without the factor 1 / sqrt(block) sums and differences of integers stay integers.
    root = np.sqrt(block)
    whole_x, whole_y = np.rint(rotated_in_numpy(x, block) * root), np.rint(rotated_in_numpy(y, block) * root)
    assert np.array_equal(whole_x @ whole_y.T, block * (x @ y.T))
    np.testing.assert_allclose(whole_x, rotated_in_numpy(x, block) * root, atol=1e-9)


@pytest.mark.parametrize(("width", "block"), [(96, 32), (40, 8), (12, 4), (1536, 512)])
def test_steps_that_quantize_rotate_first(width: int, block: int) -> None:
    x, gate, weight = floats(4, 5, width), floats(5, 5, width), floats(6, width)
    for kind in ("quantize", "norm", "gated"):
        codes = Codes(np.full((5, padded(width)), 77, np.int8), np.full(5, -5, np.float32), block)
        output = np.zeros_like(x)
        steps = Steps()
        if kind == "quantize":
            output = x
            steps.quantize(x, codes)
        elif kind == "norm":
            steps.norm(x, weight, output, epsilon=1e-5, codes=codes)
        else:
            steps.gated(gate, x, output, function="silu", codes=codes)

        def run(threads: int, steps: Steps = steps, codes: Codes = codes) -> np.ndarray:
            steps.run(5, threads=threads)
            return np.concatenate([codes.values.reshape(-1), codes.scales.view(np.int8)])

        same_every_way(run)
        expected, scales = quantized(rotated_in_numpy(output, block))
        assert np.array_equal(codes.values[:, :width], expected), kind
        assert np.array_equal(codes.scales, scales) and not codes.values[:, width:].any()


@pytest.mark.parametrize(("n", "k"), [(33, 96), (5, 40), (64, 512)])
def test_weights_are_rotated_before_they_are_quantized(n: int, k: int) -> None:
    weights = floats(7, n, k)
    block = rotation_block(k)
    tiles, scales = quantize_weights(weights, rotation=block)
    expected, expected_scales = quantized(rotated_in_numpy(weights, block))
    assert np.array_equal(untiled(tiles, n, k)[:n, :k], expected)
    assert np.array_equal(scales, expected_scales)


def test_outliers_cost_less() -> None:
    x, w = floats(8, 8, 2048), floats(9, 256, 2048)
    x[:, ::97] *= 20
    exact = x.astype(np.float64) @ w.astype(np.float64).T

    def error(block: int) -> float:
        (a, a_scale), (b, b_scale) = (quantized(rotated_in_numpy(v, block)) for v in (x, w))
        got = a.astype(np.float64) @ b.astype(np.float64).T * a_scale[:, None] * b_scale
        return float(np.linalg.norm(got - exact) / np.linalg.norm(exact))

    assert error(2048) < 0.6 * error(1)


@pytest.mark.parametrize(("width", "block"), [(96, 64), (96, 24), (96, 0), (96, -8), (1 << 17, 32)])
def test_impossible_blocks_are_refused(width: int, block: int) -> None:
    with pytest.raises(ValueError, match="cannot be rotated"):
        check_rotation(width, block)
