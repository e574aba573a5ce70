"""Keys and values of every token so far, in the layout the attention kernel reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from orkbench_tui.native.steps import KEY_BLOCK, CacheArrays

__all__ = ["CacheType", "KvCache"]

CacheType = Literal["f16", "f32", "int8"]

_DTYPES: dict[CacheType, type] = {"f16": np.float16, "f32": np.float32, "int8": np.int8}


class KvCache:
    """Room for ``context`` tokens in each of the ``layers`` of these numbers.

    Capacity is the context rounded up to whole blocks of 32. Pages are touched only as tokens arrive.
    ``int8`` holds codes with one scale for each key, which is rotated first, and each value of a head.
    """

    def __init__(
        self, layers: Sequence[int], kv_heads: int, head_dim: int, context: int, kind: CacheType
    ) -> None:
        self.context = context
        self.kind = kind
        self.capacity = -(-context // KEY_BLOCK) * KEY_BLOCK
        dtype = _DTYPES[kind]
        blocks = (kv_heads, self.capacity // KEY_BLOCK, head_dim, KEY_BLOCK)

        def scales() -> np.ndarray | None:
            return np.zeros((kv_heads, self.capacity), np.float32) if kind == "int8" else None

        self.layers = {
            layer: CacheArrays(
                np.zeros(blocks, dtype),
                np.zeros((kv_heads, self.capacity, head_dim), dtype),
                scales(),
                scales(),
            )
            for layer in layers
        }

    def filled(self, tokens: int) -> list[np.ndarray]:
        """Views of what the first ``tokens`` tokens take in every layer: whole blocks of keys, then the rest."""
        blocks = -(-tokens // KEY_BLOCK)
        views: list[np.ndarray] = []
        for layer in self.layers.values():
            views += [layer.keys[:, :blocks], layer.values[:, :tokens]]
            scales = (layer.key_scales, layer.value_scales)
            views += [array[:, :tokens] for array in scales if array is not None]
        return views

    def filled_shapes(self, tokens: int) -> list[tuple[tuple[int, ...], np.dtype]]:
        """Shapes and types of ``filled``, also for more tokens than there is room for."""
        blocks = -(-tokens // KEY_BLOCK)
        shapes: list[tuple[tuple[int, ...], np.dtype]] = []
        for layer in self.layers.values():
            heads, _, dim, lanes = layer.keys.shape
            shapes += [((heads, blocks, dim, lanes), layer.keys.dtype)]
            shapes += [((heads, tokens, dim), layer.values.dtype)]
            scales = (layer.key_scales, layer.value_scales)
            shapes += [((heads, tokens), array.dtype) for array in scales if array is not None]
        return shapes

    @staticmethod
    def bytes_for(layers: int, kv_heads: int, head_dim: int, context: int, kind: CacheType) -> int:
        """Bytes of such a cache when full."""
        capacity = -(-context // KEY_BLOCK) * KEY_BLOCK
        scale = np.dtype(np.float32).itemsize if kind == "int8" else 0
        return 2 * layers * kv_heads * capacity * (head_dim * np.dtype(_DTYPES[kind]).itemsize + scale)
