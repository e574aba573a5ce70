"""Soft caps: of values, and of attention scores."""

from __future__ import annotations

import numpy as np
import pytest

from orkbench_tui.native.library import portable_kernels
from orkbench_tui.native.steps import CacheArrays, Steps


def capped(values: np.ndarray, limit: float) -> np.ndarray:
    out, steps = values.copy(), Steps()
    steps.cap(out, limit)
    steps.run(len(out))
    return out


@pytest.mark.parametrize("width", [1, 8, 37])
@pytest.mark.parametrize("limit", [0.5, 30.0])
def test_values_are_capped_softly(width: int, limit: float) -> None:
    x = np.random.default_rng(width).standard_normal((5, width)).astype(np.float32) * 4 * limit
    x[0, 0], x[1, 0], x[2, 0] = 0.0, 1e30, -1e30
    got = capped(x, limit)
    np.testing.assert_allclose(got, limit * np.tanh(x.astype(np.float64) / limit), rtol=0, atol=4e-7 * limit)
    assert (got[0, 0], got[1, 0], got[2, 0]) == (0.0, np.float32(limit), -np.float32(limit))
    with portable_kernels():
        assert capped(x, limit).tobytes() == got.tobytes()


@pytest.mark.parametrize("cap", [0.0, 3.0])
def test_attention_scores_are_capped_before_the_mask(cap: float) -> None:
    rng = np.random.default_rng(5)
    q, k, v = rng.standard_normal((3, 40, 16)).astype(np.float32) * 2
    out = np.zeros_like(q)
    keys, values = np.zeros((1, 2, 16, 32), np.float32), np.zeros((1, 64, 16), np.float32)
    steps = Steps()
    steps.append(k, v, CacheArrays(keys, values))
    steps.attention(q, out, CacheArrays(keys, values), heads=1, scale=0.5, window=9, cap=cap)
    steps.run(40)
    scores = q.astype(np.float64) @ k.T * 0.5
    scores = cap * np.tanh(scores / cap) if cap else scores
    behind = np.arange(40)[:, None] - np.arange(40)[None]
    scores[(behind < 0) | (behind >= 9)] = -np.inf
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    np.testing.assert_allclose(out, weights @ v / weights.sum(axis=1, keepdims=True), atol=3e-6)
