"""Keys and values of every token so far, in the layout the attention kernel reads."""

from __future__ import annotations

from typing import Literal

import numpy as np

from orkbench_tui.native.steps import KEY_BLOCK

__all__ = ["CacheType", "KvCache"]

CacheType = Literal["f16", "f32"]

_DTYPES: dict[CacheType, type[np.floating]] = {"f16": np.float16, "f32": np.float32}


class KvCache:
    """Room for ``context`` tokens in each of ``layers`` layers.

    ``keys[layer]`` is [kv_heads, capacity / 32, head_dim, 32], ``values[layer]`` is
    [kv_heads, capacity, head_dim]; capacity is the context rounded up to whole blocks of 32. Pages are
    touched only as tokens arrive.
    """

    def __init__(self, layers: int, kv_heads: int, head_dim: int, context: int, kind: CacheType) -> None:
        self.context = context
        self.kind = kind
        self.capacity = -(-context // KEY_BLOCK) * KEY_BLOCK
        dtype = _DTYPES[kind]
        blocks = (kv_heads, self.capacity // KEY_BLOCK, head_dim, KEY_BLOCK)
        self.keys = tuple(np.zeros(blocks, dtype) for _ in range(layers))
        self.values = tuple(np.zeros((kv_heads, self.capacity, head_dim), dtype) for _ in range(layers))

    @property
    def nbytes(self) -> int:
        """Bytes reserved when full."""
        return sum(array.nbytes for array in (*self.keys, *self.values))
