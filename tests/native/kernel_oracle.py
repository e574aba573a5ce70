"""Plain numpy for every kernel, and the ways each kernel must give the same bits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext

import numpy as np

from orkbench_tui.native.library import portable_kernels
from orkbench_tui.native.tiles import padded


def every_way() -> Iterator[tuple[str, int, Callable]]:
    """(label, threads, context manager) for both instruction paths and one to three threads."""
    for threads in (1, 2, 3):
        yield f"native, {threads} threads", threads, nullcontext
        yield f"portable, {threads} threads", threads, portable_kernels


def same_every_way(run: Callable[[int], np.ndarray]) -> np.ndarray:
    """Calls ``run(threads)`` every way, demands equal bytes and returns the result."""
    first = None
    for label, threads, way in every_way():
        with way():
            result = run(threads).copy()
        if first is None:
            first = result
        assert result.tobytes() == first.tobytes(), label
    assert first is not None
    return first


def round_half_away(x: np.ndarray) -> np.ndarray:
    whole = np.trunc(x)
    return whole + np.sign(x) * (np.abs(x - whole) >= 0.5)


def quantized(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """int8 codes [R, width] and scales [R] of float32 rows, as driver-semantics 21.2 says."""
    scales = (np.abs(rows).max(axis=1, initial=0) / np.float32(127)).astype(np.float32)
    scales[scales == 0] = 1
    codes = np.clip(round_half_away(rows / scales[:, None]), -127, 127)
    return codes.astype(np.int8), scales


def untiled(tiles: np.ndarray, n: int, k: int) -> np.ndarray:
    """Tiles back to the padded [N, K]."""
    N, K = padded(n), padded(k)
    return tiles.reshape(N // 32, K // 32, 32, 32).transpose(0, 2, 1, 3).reshape(N, K)


def rms_norm(x: np.ndarray, weight: np.ndarray, epsilon: float) -> np.ndarray:
    x = x.astype(np.float64)
    return x / np.sqrt((x**2).mean(axis=-1, keepdims=True) + epsilon) * weight


def attention(
    query: np.ndarray, keys: np.ndarray, values: np.ndarray, position: int, scale: float, window: int = 0
) -> np.ndarray:
    """query [rows, heads, d] at position.. over keys, values [positions, kv_heads, d], double precision."""
    rows, heads, dim = query.shape
    group = heads // keys.shape[1]
    output = np.zeros((rows, heads, dim))
    for row in range(rows):
        end = position + row + 1
        start = max(0, end - window) if window else 0
        for head in range(heads):
            k = keys[start:end, head // group].astype(np.float64)
            v = values[start:end, head // group].astype(np.float64)
            scores = k @ query[row, head].astype(np.float64) * scale
            weights = np.exp(scores - scores.max())
            output[row, head] = weights @ v / weights.sum()
    return output
