"""Keys and values of a decode, resident per layer and head: append a token, attend, go back, give back.

Below 256 keys the NPU's schedule does not compute, so the host attends; from there on the resident tiles
do. The float rows are kept beside them: they are what a step back packs anew.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from orkbench_tui.driver.context import Context
from orkbench_tui.driver.failures import LifetimeError, OperandError
from orkbench_tui.driver.head_attention import LEAST_KEYS, HeadAttention
from orkbench_tui.driver.matmul.operands import require_array

__all__ = ["AttentionCache"]

Floats = NDArray[np.float32]


class AttentionCache:
    """Attention of one conversation over ``layers`` layers of ``kv_heads`` heads, shared by ``heads`` query heads.

    Args:
        value_scale: see ``HeadAttention``.

    Raises:
        OperandError: heads that do not share the key heads evenly, or sizes ``HeadAttention`` does not take.
    """

    def __init__(
        self,
        context: Context,
        *,
        layers: int,
        heads: int,
        kv_heads: int,
        head_dim: int,
        max_keys: int,
        value_scale: float,
    ) -> None:
        if min(layers, heads, kv_heads) < 1 or heads % kv_heads:
            raise OperandError(
                "an attention cache",
                why=f"{layers} layers, {heads} heads over {kv_heads}; allowed: from 1, heads a multiple of key heads",
            )
        self._context = context
        self._heads, self._kv_heads, self._dim = heads, kv_heads, head_dim
        self._max_keys = max_keys
        self._value_scale = value_scale
        self._keys = np.zeros((layers, kv_heads, max_keys, head_dim), np.float32)
        self._values = np.zeros_like(self._keys)
        self._lengths = [0] * layers
        self._open = True
        self._resident = [[self._made(layer, head) for head in range(kv_heads)] for layer in range(layers)]

    def _made(self, layer: int, head: int) -> HeadAttention:
        return HeadAttention(
            self._context,
            self._dim,
            self._max_keys,
            value_scale=self._value_scale,
            core=head % self._context.soc.cores,
            name=f"attention {layer}.{head}",
        )

    @property
    def length(self) -> int:
        """Tokens every layer has; within a step the first layers are one ahead."""
        return min(self._lengths)

    def step(self, layer: int, queries: Floats, keys: Floats, values: Floats) -> Floats:
        """One token of a layer: keys and values float32 [kv_heads, head_dim] join, queries [heads, head_dim] attend.

        Raises:
            OperandError: arrays that do not fit, numbers that are not finite, or no room for another token.
            LifetimeError, NoDeviceError, UnhealthyError: see ``HeadAttention.attend``.
        """
        self._require_open()
        require_array(queries, (self._heads, self._dim), np.float32, "queries")
        for what, rows in (("keys", keys), ("values", values)):
            require_array(rows, (self._kv_heads, self._dim), np.float32, what)
        at = self._lengths[layer]
        if at >= self._max_keys:
            raise OperandError(
                "an attention cache", why=f"it holds {self._max_keys} tokens, all it has room for"
            )
        for head, resident in enumerate(self._resident[layer]):
            resident.append(keys[head], values[head])
            self._keys[layer, head, at], self._values[layer, head, at] = keys[head], values[head]
        self._lengths[layer] = at + 1
        shared = self._heads // self._kv_heads
        return np.stack([self._attend(layer, head // shared, queries[head]) for head in range(self._heads)])

    def _attend(self, layer: int, head: int, query: Floats) -> Floats:
        length = self._lengths[layer]
        if length >= LEAST_KEYS:
            return self._resident[layer][head].attend(query)
        scores = self._keys[layer, head, :length].astype(np.float64) @ query / np.sqrt(self._dim)
        weights = np.exp(scores - scores.max())
        return np.asarray(weights @ self._values[layer, head, :length] / weights.sum(), np.float32)

    def rewind(self, length: int) -> None:
        """Forget what came after the first ``length`` tokens; their tiles are packed anew.

        Raises:
            OperandError: more tokens than there are.
        """
        self._require_open()
        if not 0 <= length <= self.length:
            raise OperandError("an attention cache", why=f"back to {length} of {self.length} tokens")
        for layer, heads in enumerate(self._resident):
            if self._lengths[layer] == length:
                continue
            for head, old in enumerate(heads):
                old.free()
                fresh = heads[head] = self._made(layer, head)
                for at in range(length):
                    fresh.append(self._keys[layer, head, at], self._values[layer, head, at])
            self._lengths[layer] = length

    def _require_open(self) -> None:
        if not self._open:
            raise LifetimeError("an attention cache", why="it was freed", do="make it again")

    def free(self) -> None:
        """Give all memory back; the cache cannot be used afterwards."""
        if self._open:
            self._open = False
            for heads in self._resident:
                for head in heads:
                    head.free()
