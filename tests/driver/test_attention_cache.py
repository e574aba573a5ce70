"""Keys and values through a decode: token by token over layers and heads, back and forth, and given back."""

from __future__ import annotations

import numpy as np
import pytest

from orkbench_tui.driver.attention_cache import AttentionCache
from orkbench_tui.driver.failures import LifetimeError, OperandError
from orkbench_tui.driver.npu import Npu

LAYERS, HEADS, KV_HEADS, DIM, ROOM = 2, 2, 1, 64, 512


def _cache(npu: Npu, **changes: int) -> AttentionCache:
    sizes = {"layers": LAYERS, "heads": HEADS, "kv_heads": KV_HEADS, "head_dim": DIM, "max_keys": ROOM}
    return AttentionCache(npu.context, value_scale=127 / 4.5, **(sizes | changes))


class _Reference:
    def __init__(self) -> None:
        self.rows: list[list[tuple[np.ndarray, np.ndarray]]] = [[] for _ in range(LAYERS)]

    def step(self, layer: int, queries: np.ndarray, keys: np.ndarray, values: np.ndarray) -> np.ndarray:
        self.rows[layer].append((keys, values))
        k, v = (np.stack([row[part] for row in self.rows[layer]])[:, 0].astype(np.float64) for part in (0, 1))
        scores = queries.astype(np.float64) @ k.T / np.sqrt(DIM)
        weights = np.exp(scores - scores.max(axis=1, keepdims=True))
        return weights / weights.sum(axis=1, keepdims=True) @ v


def _token(random: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return tuple(  # type: ignore[return-value]
        np.clip(random.standard_normal((rows, DIM)), -4, 4).astype(np.float32)
        for rows in (HEADS, KV_HEADS, KV_HEADS)
    )


def _off(found: np.ndarray, wanted: np.ndarray) -> float:
    return float(np.linalg.norm(found - wanted) / np.linalg.norm(wanted))


def test_a_decode_over_layers_is_attention_of_all_tokens_before(npu: Npu) -> None:
    random, cache, reference = np.random.default_rng(1), _cache(npu), _Reference()
    submits = []
    for _ in range(262):
        for layer in range(LAYERS):
            token = _token(random)
            before = npu.counters.submits
            found, wanted = cache.step(layer, *token), reference.step(layer, *token)
            submits.append(npu.counters.submits - before)
            assert _off(found, wanted) < (1e-5 if cache.length < 255 else 0.08)
    assert cache.length == 262
    assert not any(submits[: 2 * 255]), "short contexts are the host's"
    assert all(count == 2 * HEADS for count in submits[2 * 256 :]), "two products a head"
    cache.free()


def test_going_back_forgets_what_came_after(npu: Npu) -> None:
    random, cache = np.random.default_rng(2), _cache(npu, layers=1)
    tokens = [_token(random) for _ in range(260)]
    first = [cache.step(0, *token) for token in tokens]
    cache.rewind(256)
    assert cache.length == 256
    again = [cache.step(0, *token) for token in tokens[256:]]
    for one, other in zip(first[256:], again, strict=True):
        np.testing.assert_array_equal(one, other)
    cache.rewind(0)
    np.testing.assert_array_equal(cache.step(0, *tokens[0]), first[0])
    with pytest.raises(OperandError, match="back to 2 of 1"):
        cache.rewind(2)
    cache.free()


def test_all_memory_comes_back_and_a_freed_cache_refuses(npu: Npu) -> None:
    before = npu.memory.used_bytes(0)
    cache = _cache(npu)
    assert npu.memory.used_bytes(0) > before
    cache.free()
    cache.free()
    assert npu.memory.used_bytes(0) == before
    with pytest.raises(LifetimeError):
        cache.step(0, *_token(np.random.default_rng(3)))


def test_sizes_and_arrays_that_do_not_fit(npu: Npu) -> None:
    for changes in ({"layers": 0}, {"kv_heads": 3}, {"heads": 0}):
        with pytest.raises(OperandError):
            _cache(npu, **changes)
    cache = _cache(npu, layers=1, max_keys=64)
    queries, keys, values = _token(np.random.default_rng(4))
    with pytest.raises(OperandError):
        cache.step(0, queries[:1], keys, values)
    for _ in range(64):
        cache.step(0, queries, keys, values)
    with pytest.raises(OperandError, match="all it has room for"):
        cache.step(0, queries, keys, values)
    cache.free()
