"""The cache and attention over it: values, masks, half precision, and the same bits for any chunking."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orkbench_tui.native.library import portable_kernels
from orkbench_tui.native.rotation import rotated_in_numpy, rotation_block
from orkbench_tui.native.steps import CacheArrays, Steps
from tests.native.kernel_oracle import attention, quantized, same_every_way


class Layer:
    """One layer's cache and the steps that fill and read it."""

    def __init__(
        self, rows: int, heads: int, kv_heads: int, dim: int, capacity: int, dtype: type, window: int = 0
    ) -> None:
        self.keys = np.zeros((rows, kv_heads * dim), np.float32)
        self.values = np.zeros((rows, kv_heads * dim), np.float32)
        self.queries = np.zeros((rows, heads * dim), np.float32)
        self.output = np.zeros((rows, heads * dim), np.float32)
        self.key_cache = np.zeros((kv_heads, capacity // 32, dim, 32), dtype)
        self.value_cache = np.zeros((kv_heads, capacity, dim), dtype)
        scales = [np.zeros((kv_heads, capacity), np.float32) if dtype is np.int8 else None for _ in range(2)]
        self.cache = CacheArrays(self.key_cache, self.value_cache, *scales)
        self.steps = Steps()
        self.steps.append(self.keys, self.values, self.cache)
        self.steps.attention(
            self.queries,
            self.output,
            self.cache,
            heads=heads,
            scale=dim**-0.5,
            window=window,
        )

    def run(self, q: np.ndarray, k: np.ndarray, v: np.ndarray, position: int, threads: int) -> np.ndarray:
        rows = len(q)
        self.queries[:rows] = q.reshape(rows, -1)
        self.keys[:rows] = k.reshape(rows, -1)
        self.values[:rows] = v.reshape(rows, -1)
        self.steps.run(rows, position, threads)
        return self.output[:rows].copy()


def tokens(seed: int, count: int, heads: int, kv_heads: int, dim: int) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(seed)
    return tuple(rng.standard_normal((count, h, dim)).astype(np.float32) for h in (heads, kv_heads, kv_heads))


def held_as(dtype: type, values: np.ndarray, *, rotated: bool = False) -> np.ndarray:
    """What a cache gives back of values [count, heads, dim]; keys are ``rotated`` while they are int8."""
    if dtype is not np.int8:
        return values.astype(dtype)
    rows, block = values.reshape(-1, values.shape[-1]), rotation_block(values.shape[-1])
    codes, scales = quantized(rotated_in_numpy(rows, block) if rotated else rows)
    held = (codes * scales[:, None]).astype(np.float32)
    return (rotated_in_numpy(held, block) if rotated else held).reshape(values.shape)


@settings(max_examples=20, deadline=None)
@given(
    st.integers(1, 90),
    st.sampled_from([(1, 1), (3, 1), (4, 2), (9, 3)]),
    st.sampled_from([8, 24, 64]),
    st.sampled_from([0, 1, 7, 40]),
    st.sampled_from([np.float32, np.float16, np.int8]),
    st.integers(0, 1000),
)
def test_against_double_precision(
    count: int, heads: tuple[int, int], dim: int, window: int, dtype: type, seed: int
) -> None:
    q, k, v = tokens(seed, count, *heads, dim)
    layer = Layer(count, *heads, dim, 96, dtype, window)
    got = same_every_way(lambda threads: layer.run(q, k, v, 0, threads))
    stored = [held_as(dtype, k, rotated=True), held_as(dtype, v)]
    expected = attention(q, *stored, 0, dim**-0.5, window).reshape(count, -1)
    np.testing.assert_allclose(got, expected, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("dtype", [np.float16, np.int8])
@pytest.mark.parametrize("window", [0, 33])
def test_chunks_of_any_size_give_the_same_bits(window: int, dtype: type) -> None:
    count, heads, kv_heads, dim = 150, 6, 2, 32
    q, k, v = tokens(11, count, heads, kv_heads, dim)
    whole = Layer(count, heads, kv_heads, dim, 160, dtype, window).run(q, k, v, 0, 2)
    for chunk in (1, 7, 64):
        layer = Layer(chunk, heads, kv_heads, dim, 160, dtype, window)
        parts = [
            layer.run(q[i : i + chunk], k[i : i + chunk], v[i : i + chunk], i, 2)
            for i in range(0, count, chunk)
        ]
        assert np.concatenate(parts).tobytes() == whole.tobytes()


@pytest.mark.parametrize("dtype", [np.float32, np.int8])
def test_what_a_rewind_left_behind_is_never_read(dtype: type) -> None:
    q, k, v = tokens(5, 40, 2, 1, 16)
    clean = Layer(40, 2, 1, 16, 64, dtype)
    used = Layer(40, 2, 1, 16, 64, dtype)
    for left in (used.key_cache, used.value_cache, used.cache.key_scales, used.cache.value_scales):
        if left is not None:
            left[:] = 99 if left.dtype == np.int8 else np.nan
    for position in (0, 20):
        rows = slice(position, position + 20)
        expected = clean.run(q[rows], k[rows], v[rows], position, 1)
        assert used.run(q[rows], k[rows], v[rows], position, 1).tobytes() == expected.tobytes()


def test_large_scores_do_not_overflow() -> None:
    q, k, v = tokens(6, 70, 1, 1, 8)
    layer = Layer(70, 1, 1, 8, 96, np.float32)
    got = layer.run(q * 1e3, k * 1e3, v, 0, 1)
    expected = attention(q * 1e3, k * 1e3, v, 0, 8**-0.5).reshape(70, -1)
    np.testing.assert_allclose(got, expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("portable", [False, True])
def test_every_half_is_read_exactly(portable: bool) -> None:
    # A single key has weight 1, so the output is the stored value.
    finite = np.arange(65536, dtype=np.uint16).view(np.float16)
    finite = finite[np.isfinite(finite)]
    width = 256
    for start in range(0, len(finite), width):
        wanted = np.resize(finite[start : start + width], width)
        layer = Layer(1, 1, 1, width, 32, np.float16)
        q, k, v = np.zeros((1, 1, width)), np.zeros((1, 1, width)), wanted.astype(np.float32)[None, None]
        if portable:
            with portable_kernels():
                got = layer.run(q, k, v, 0, 1)[0]
        else:
            got = layer.run(q, k, v, 0, 1)[0]
        assert np.array_equal(got, wanted.astype(np.float32))


def test_halves_are_written_as_numpy_writes_them() -> None:
    rng = np.random.default_rng(8)
    halves = rng.integers(0, 0x7BFF, 4000, dtype=np.uint16)
    low, high = (h.view(np.float16).astype(np.float64) for h in (halves, halves + 1))
    middles = ((low + high) / 2).astype(np.float32)
    special = np.array([0, -0.0, 65504, 65519.996, 65520, 1e6, -1e6, 5.96e-8, 2.98e-8, 2.9802326e-8, 1e-30])
    values = np.concatenate(
        [
            middles,
            np.nextafter(middles, 0),
            np.nextafter(middles, np.float32(9e4)),
            special.astype(np.float32),
        ]
    )
    values = np.concatenate([values, -values])
    values = np.resize(values, -(-len(values) // 8) * 8)
    with np.errstate(over="ignore"):
        expected = values.astype(np.float16).view(np.uint16)
    for start in range(0, len(values), 8):
        layer = Layer(1, 1, 1, 8, 32, np.float16)
        part = values[start : start + 8][None, None]
        layer.run(np.zeros((1, 1, 8)), part, part, 0, 1)
        assert np.array_equal(layer.value_cache.view(np.uint16)[0, 0], expected[start : start + 8])
        assert np.array_equal(layer.key_cache.view(np.uint16)[0, 0, :, 0], expected[start : start + 8])


def test_room_is_checked_before_anything_runs() -> None:
    layer = Layer(4, 2, 1, 8, 32, np.float32)
    for rows, position in ((5, 0), (4, 29), (1, -1), (-1, 0)):
        with pytest.raises(ValueError, match="room for 4 rows, 32 positions"):
            layer.steps.run(rows, position)


@pytest.mark.parametrize(("dim", "capacity"), [(12, 32), (264, 32), (8, 40)])
def test_caches_the_kernel_cannot_read_are_refused(dim: int, capacity: int) -> None:
    with pytest.raises(ValueError):
        Layer(1, 1, 1, dim, capacity, np.float32)


def test_codes_and_scales_are_those_of_the_scheme() -> None:
    _, k, v = tokens(9, 40, 2, 2, 24)
    layer = Layer(40, 2, 2, 24, 64, np.int8)
    v[3] = 0
    layer.run(np.zeros((40, 2, 24)), k, v, 0, 2)
    assert layer.cache.key_scales is not None and layer.cache.value_scales is not None
    for head in range(2):
        codes, scales = quantized(rotated_in_numpy(np.ascontiguousarray(k[:, head]), 8))
        assert np.array_equal(layer.key_cache[head].transpose(0, 2, 1).reshape(64, 24)[:40], codes)
        assert np.array_equal(layer.cache.key_scales[head, :40], scales)
        codes, scales = quantized(v[:, head])
        assert np.array_equal(layer.value_cache[head, :40], codes)
        assert np.array_equal(layer.cache.value_scales[head, :40], scales)


def test_a_value_that_is_not_finite_shows_in_the_result() -> None:
    q, k, v = tokens(9, 2, 1, 1, 8)
    k[0, 0, 3] = np.inf
    layer = Layer(2, 1, 1, 8, 32, np.int8)
    assert not np.isfinite(layer.run(q, k, v, 0, 1)).all()


def test_scales_belong_to_int8_alone() -> None:
    layer = Layer(1, 1, 1, 8, 32, np.int8)
    with pytest.raises(ValueError, match="has scales"):
        layer.steps.append(layer.keys, layer.values, CacheArrays(layer.key_cache, layer.value_cache))
    halves = np.zeros((1, 1, 8, 32), np.float64), np.zeros((1, 32, 8), np.float64)
    with pytest.raises(ValueError, match="float64"):
        layer.steps.append(layer.keys, layer.values, CacheArrays(*halves))
