"""Norm, quantization, rotation, gating and addition of rows against plain numpy."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orkbench_tui.native.steps import Codes, Steps
from orkbench_tui.native.tiles import padded
from tests.native.kernel_oracle import quantized, rms_norm, same_every_way

shapes = st.tuples(st.integers(1, 9), st.integers(1, 100))


def floats(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def room_for(rows: int, width: int) -> Codes:
    """Codes full of rubbish, so that a byte nobody writes shows."""
    return Codes(np.full((rows, padded(width)), 77, np.int8), np.full(rows, -5, np.float32))


@settings(max_examples=30, deadline=None)
@given(shapes, st.integers(0, 1000))
def test_norm_and_its_codes(shape: tuple[int, int], seed: int) -> None:
    rows, width = shape
    x, weight = floats(seed, rows, width), floats(seed + 1, width)
    output, codes = np.zeros_like(x), room_for(rows, width)
    steps = Steps()
    steps.norm(x, weight, output, epsilon=1e-5, codes=codes)

    def run(threads: int) -> np.ndarray:
        steps.run(rows, threads=threads)
        return np.concatenate([output.view(np.int8).reshape(-1), codes.values.reshape(-1)])

    same_every_way(run)
    np.testing.assert_allclose(output, rms_norm(x, weight, 1e-5), rtol=2e-6, atol=1e-7)
    expected, scales = quantized(output)
    assert np.array_equal(codes.values[:, :width], expected)
    assert np.array_equal(codes.scales, scales)
    assert not codes.values[:, width:].any()


def test_norm_of_every_head_on_its_own_and_added() -> None:
    x, weight, before = floats(1, 3, 4 * 16), floats(2, 16), floats(3, 3, 4 * 16)
    output = before.copy()
    steps = Steps()
    steps.norm(x, weight, output, epsilon=1e-6, groups=4, accumulate=True)
    steps.run(3)
    expected = before + rms_norm(x.reshape(3, 4, 16), weight, 1e-6).reshape(3, 64)
    np.testing.assert_allclose(output, expected, rtol=1e-5, atol=1e-6)


@settings(max_examples=30, deadline=None)
@given(shapes, st.integers(0, 1000), st.sampled_from([1e-38, 1.0, 1e38]))
def test_quantize(shape: tuple[int, int], seed: int, size: float) -> None:
    rows, width = shape
    x = np.clip(floats(seed, rows, width), -3, 3) * np.float32(size)
    x[0] = 0
    codes = room_for(rows, width)
    steps = Steps()
    steps.quantize(x, codes)

    def run(threads: int) -> np.ndarray:
        steps.run(rows, threads=threads)
        return codes.values

    values = same_every_way(run)
    expected, scales = quantized(x)
    assert np.array_equal(values[:, :width], expected)
    assert np.array_equal(codes.scales, scales)
    assert codes.scales[0] == 1 and not values[0].any()


@pytest.mark.parametrize("strange", [np.nan, np.inf])
@pytest.mark.parametrize("at", [0, 9, 36])
def test_a_value_that_is_not_finite_reaches_the_scale(strange: float, at: int) -> None:
    x = np.ones((2, 37), np.float32)
    x[1, at] = strange
    codes = room_for(2, 37)
    steps = Steps()
    steps.quantize(x, codes)
    steps.run(2)
    assert codes.scales[0] == np.float32(1) / np.float32(127)
    assert math.isnan(codes.scales[1]) and not codes.values[1].any()


@pytest.mark.parametrize("halves", [False, True])
@pytest.mark.parametrize("dims", [8, 16])
def test_rope_turns_the_right_pairs(halves: bool, dims: int) -> None:
    heads, head_dim, position = 3, 16, 5
    angles = np.random.default_rng(3).uniform(-3, 3, (20, dims // 2))
    cosines, sines = np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
    start = floats(4, 4, heads * head_dim)
    values = start.copy()
    steps = Steps()
    steps.rope(values, cosines, sines, heads=heads, halves=halves)

    def run(threads: int) -> np.ndarray:
        values[:] = start
        steps.run(4, position, threads)
        return values

    got = same_every_way(run).reshape(4, heads, head_dim)
    x = start.reshape(4, heads, head_dim)
    first = np.arange(dims // 2) if halves else np.arange(0, dims, 2)
    second = first + (dims // 2 if halves else 1)
    turned = (x[..., first] + 1j * x[..., second]) * np.exp(1j * angles[position : position + 4])[:, None]
    np.testing.assert_allclose(got[..., first], turned.real, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(got[..., second], turned.imag, rtol=1e-5, atol=1e-6)
    assert np.array_equal(got[..., dims:], x[..., dims:])


def gelu_tanh(x: np.ndarray) -> np.ndarray:
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


@pytest.mark.parametrize(
    ("function", "oracle"), [("silu", lambda x: x / (1 + np.exp(-x))), ("gelu_tanh", gelu_tanh)]
)
@pytest.mark.parametrize("width", [1, 8, 77])
def test_gate(function: str, oracle, width: int) -> None:  # type: ignore[no-untyped-def]
    gate, up = floats(5, 6, width) * 4, floats(6, 6, width)
    gate[0, 0], up[0, 0] = 0, 3
    output, codes = np.zeros_like(gate), room_for(6, width)
    steps = Steps()
    steps.gated(gate, up, output, function=function, codes=codes)  # type: ignore[arg-type]

    def run(threads: int) -> np.ndarray:
        steps.run(6, threads=threads)
        return output

    got = same_every_way(run)
    np.testing.assert_allclose(got, oracle(gate.astype(np.float64)) * up, rtol=3e-6, atol=1e-6)
    assert np.array_equal(codes.values[:, :width], quantized(got)[0])


def test_gate_far_from_zero() -> None:
    gate = np.array([[-1e4, -88, -87, 87, 88, 1e4, 0, -0.0]], np.float32)
    output = np.zeros_like(gate)
    steps = Steps()
    steps.gated(gate, np.ones_like(gate), output, function="silu")
    steps.run(1)
    np.testing.assert_allclose(output[0, 3:6], [87, 88, 1e4], rtol=1e-6)
    assert (np.abs(output[0, :3]) < 1e-33).all() and (output[0, 6:] == 0).all()


@pytest.mark.parametrize("accumulate", [False, True])
@pytest.mark.parametrize("with_bias", [False, True])
def test_add(accumulate: bool, with_bias: bool) -> None:
    x, before = floats(1, 5, 33), floats(2, 5, 33)
    bias = floats(3, 33) if with_bias else None
    output = before.copy()
    steps = Steps()
    steps.add(x, output, bias=bias, accumulate=accumulate)
    steps.run(5)
    value = x if bias is None else x + bias
    assert np.array_equal(output, before + value if accumulate else value)
