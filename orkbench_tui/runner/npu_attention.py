"""Attention of single tokens over keys and values that stay on the NPU as int8.

The cache of the session is what counts: a head's codes are brought up to it before it attends, and made anew where they no longer fit it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from orkbench_tui.driver.attention_limits import KEY_CONTRACTION, KEY_STEP, LEAST_KEYS, most_keys
from orkbench_tui.native.rotation import rotated, rotation_block
from orkbench_tui.native.steps import CacheArrays
from orkbench_tui.runner.kv_cache import KvCache
from orkbench_tui.runner.linear import HeadAttentionLike, NpuLike
from orkbench_tui.runner.models.architecture import Architecture

__all__ = ["NpuAttention", "room_for", "why_not_on_npu"]

Floats = NDArray[np.float32]

_TOP = 127
_STEPS = 4
"""Limits of values are this many to a factor of two: codes are made anew when the largest value passes one."""


def why_not_on_npu(architecture: Architecture) -> str:
    """Why heads of this model cannot attend there, "" where they can."""
    if architecture.head_dim % KEY_STEP or not 0 < architecture.head_dim <= KEY_CONTRACTION:
        return (
            f"heads of {architecture.head_dim} values are no multiple of {KEY_STEP} up to {KEY_CONTRACTION}"
        )
    return "its scores are capped" if architecture.attention_cap else ""


def room_for(tokens: int) -> int:
    """Keys a head has room for when it holds ``tokens``: a product goes over all of it, so it grows by doubling."""
    return int(max(KEY_CONTRACTION, 1 << (tokens - 1).bit_length()))


@dataclass(slots=True)
class _Head:
    """Codes of the first ``length`` tokens of one key head, of ``room``; ``limit`` is the largest value they can tell."""

    attention: HeadAttentionLike | None = None
    length: int = 0
    room: int = 0
    limit: float = 0.0


class NpuAttention:
    """For one session. A head takes memory when it first attends.

    Raises:
        ValueError: a model whose heads cannot.
    """

    def __init__(self, npu: NpuLike, architecture: Architecture, cache: KvCache) -> None:
        if why := why_not_on_npu(architecture):
            raise ValueError(why)
        self._npu = npu
        self._architecture = architecture
        self._cache = cache
        self._most = most_keys(npu.soc)
        self._layers = {
            layer: [_Head() for _ in range(architecture.kv_heads)] for layer in architecture.attending
        }
        # The hardware path divides by the root of the head's size.
        self._query_scale = np.float32(architecture.attention_scale * np.sqrt(architecture.head_dim))

    def attends(self, layer: int, tokens: int) -> bool:
        """Whether a query that sees ``tokens`` of a layer is for the NPU."""
        window = self._architecture.windows[layer]
        return LEAST_KEYS <= tokens <= self._most and (window == 0 or tokens <= window)

    def attend(self, layer: int, tokens: int, queries: Floats, output: Floats) -> None:
        """``output`` [heads * head_dim] for ``queries`` of the same size, over the first ``tokens`` of the cache.

        NaN where a key, value or query is not finite.

        Raises:
            NoMemoryError: there is no room for a head.
            UnhealthyError, NoDeviceError: the NPU gave no answer.
        """
        a = self._architecture
        shared = a.heads // a.kv_heads
        scaled = (queries * self._query_scale).reshape(a.heads, a.head_dim)
        results = output.reshape(a.heads, a.head_dim)
        for index, head in enumerate(self._layers[layer]):
            mine = slice(index * shared, (index + 1) * shared)
            attention = self._told(layer, index, head, tokens) if np.isfinite(scaled[mine]).all() else None
            for query, result in zip(scaled[mine], results[mine], strict=True):
                result[:] = np.nan if attention is None else attention.attend(query)

    def forget(self, length: int) -> None:
        """The cache holds only the first ``length`` tokens now.

        Heads that were told more are told anew, so that their codes depend on what the cache holds and on nothing else.
        """
        for heads in self._layers.values():
            for head in heads:
                if head.length > length:
                    self._drop(head)

    def _drop(self, head: _Head) -> None:
        if head.attention is not None:
            head.attention.free()
        head.attention, head.length, head.room, head.limit = None, 0, 0, 0.0

    def _told(self, layer: int, index: int, head: _Head, tokens: int) -> HeadAttentionLike | None:
        """The head with all ``tokens``; None where one of them is not finite."""
        arrays = self._cache.layers[layer]
        keys, values = _rows(arrays, index, head.length, tokens)
        if not (np.isfinite(keys).all() and np.isfinite(values).all()):
            return None
        largest = float(np.abs(values).max(initial=0.0))
        if head.attention is None or largest > head.limit or tokens > head.room:
            self._drop(head)
            keys, values = _rows(arrays, index, 0, tokens)
            head.room = room_for(tokens)
            head.limit = _limit(float(np.abs(values).max()))
            head.attention = self._npu.attention(
                self._architecture.head_dim,
                head.room,
                value_scale=_TOP / head.limit,
                core=index % self._npu.soc.cores,
                name=f"attention {layer}.{index}",
            )
        if len(keys):
            head.attention.extend(keys, values)
        head.length = tokens
        return head.attention


def _limit(largest: float) -> float:
    return float(2.0 ** (np.ceil(_STEPS * np.log2(largest)) / _STEPS)) if largest > 0 else 1.0


def _rows(arrays: CacheArrays, head: int, first: int, end: int) -> tuple[Floats, Floats]:
    """Keys and values of one head, float32 [end - first, head_dim] each."""
    block = arrays.keys.shape[-1]
    blocks = arrays.keys[head, first // block : -(-end // block)].transpose(0, 2, 1)
    keys = blocks.reshape(-1, arrays.keys.shape[2])[first % block :][: end - first].astype(np.float32)
    values = arrays.values[head, first:end].astype(np.float32)
    if arrays.key_scales is not None and arrays.value_scales is not None:
        keys *= arrays.key_scales[head, first:end, None]
        values *= arrays.value_scales[head, first:end, None]
        if len(keys):
            keys = rotated(keys, rotation_block(keys.shape[1]))
    return np.ascontiguousarray(keys), np.ascontiguousarray(values)
