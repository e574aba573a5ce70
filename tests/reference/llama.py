"""A llama-family forward pass in plain numpy: short, slow, and independent of the engine.

``logits_of``/``rewind`` make it usable wherever an engine is measured. The matmuls go through ``Linears``:
``FloatLinears`` multiplies the dequantized weights in float32, ``QuantizedLinears`` does what w8a8 does.
Embedding lookup, norms, rotary embedding, attention and activation are float32 in both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

import numpy as np

from orkbench_tui.runner.gguf_file import GgufFile
from orkbench_tui.runner.models.architecture import Architecture
from orkbench_tui.runner.models.read_architecture import architecture_of
from tests.reference import w8a8


class Linears(Protocol):
    def apply(self, name: str, x: np.ndarray) -> np.ndarray:
        """float32 [M, K] by the weight ``name`` → float32 [M, N]."""
        ...


class FloatLinears:
    def __init__(self, names: Iterable[str], weight: Callable[[str], np.ndarray]) -> None:
        self._weights = {name: weight(name) for name in names}

    def apply(self, name: str, x: np.ndarray) -> np.ndarray:
        return x @ self._weights[name].T


class QuantizedLinears:
    """int8 codes with a scale per weight row and per activation row, exact int32 sums."""

    def __init__(self, names: Iterable[str], weight: Callable[[str], np.ndarray]) -> None:
        self._weights = {name: w8a8.quantize(weight(name)) for name in names}

    def apply(self, name: str, x: np.ndarray) -> np.ndarray:
        codes, scales = self._weights[name]
        x_codes, x_scales = w8a8.quantize(x)
        sums = w8a8.accumulate(x_codes, codes).astype(np.float32)
        return sums * (x_scales[:, None] * scales[None, :])


class ReferenceLlama:
    """Appends tokens to its cache; ``position`` is how many it holds."""

    def __init__(
        self, architecture: Architecture, weight: Callable[[str], np.ndarray], linears: Linears
    ) -> None:
        self.architecture = architecture
        self._linears = linears
        self._embedding = weight("token_embd.weight")
        names = [name for layer in range(architecture.layers) for name in architecture.norms(layer)]
        self._norms = {name: weight(name) for name in [*names, "output_norm.weight"]}
        self._keys: list[np.ndarray] = []
        self._values: list[np.ndarray] = []
        self.position = 0
        self.rewind(0)

    @classmethod
    def from_gguf(cls, model: GgufFile, *, quantized: bool = False) -> ReferenceLlama:
        """All weights are read here; the file may be closed afterwards."""
        architecture = architecture_of(model)

        def weight(name: str) -> np.ndarray:
            tied = architecture.tied_head and name == architecture.head.name
            return model.dequantized("token_embd.weight" if tied else name)

        kind = QuantizedLinears if quantized else FloatLinears
        names = [linear.name for linear in architecture.all_linears()]
        return cls(architecture, weight, kind(names, weight))

    def rewind(self, position: int) -> None:
        a = self.architecture
        if position == 0:
            empty = np.zeros((0, a.kv_heads, a.head_dim), dtype=np.float32)
            self._keys, self._values = [empty] * a.layers, [empty] * a.layers
        self._keys = [keys[:position] for keys in self._keys]
        self._values = [values[:position] for values in self._values]
        self.position = position

    def logits_of(self, tokens: Sequence[int]) -> np.ndarray:
        """float32 [len(tokens), vocabulary]."""
        x = self.hidden_of(tokens)
        return self._linears.apply(self.architecture.head.name, x)

    def hidden_of(self, tokens: Sequence[int]) -> np.ndarray:
        """The normalized state before the head, float32 [len(tokens), embedding]."""
        a = self.architecture
        x = self._embedding[np.asarray(tokens)]
        for layer in range(a.layers):
            prefix = f"blk.{layer}."
            x = x + self._attention(layer, prefix, self._norm(x, prefix + "attn_norm.weight"))
            h = self._norm(x, prefix + "ffn_norm.weight")
            gate = self._linears.apply(prefix + "ffn_gate.weight", h)
            up = self._linears.apply(prefix + "ffn_up.weight", h)
            x = x + self._linears.apply(prefix + "ffn_down.weight", gate / (1 + np.exp(-gate)) * up)
        self.position += len(tokens)
        return self._norm(x, "output_norm.weight")

    def _norm(self, x: np.ndarray, name: str) -> np.ndarray:
        mean = np.mean(x * x, axis=-1, keepdims=True, dtype=np.float32)
        return x / np.sqrt(mean + np.float32(self.architecture.norm_eps)) * self._norms[name]

    def _rotate(self, x: np.ndarray) -> np.ndarray:
        """x [M, heads, head_dim] turned by its positions."""
        rope = self.architecture.rope
        pair = np.arange(rope.dims // 2)
        frequency = rope.base ** (-2.0 * pair / rope.dims) / np.asarray(rope.factors or 1.0)
        angle = (self.position + np.arange(len(x)))[:, None, None] * frequency
        cos, sin = np.cos(angle).astype(np.float32), np.sin(angle).astype(np.float32)
        first, second = (2 * pair, 2 * pair + 1) if rope.pairing == "norm" else (pair, pair + rope.dims // 2)
        out = x.copy()
        out[..., first] = x[..., first] * cos - x[..., second] * sin
        out[..., second] = x[..., first] * sin + x[..., second] * cos
        return out

    def _attention(self, layer: int, prefix: str, x: np.ndarray) -> np.ndarray:
        a = self.architecture
        m = len(x)
        q = self._linears.apply(prefix + "attn_q.weight", x).reshape(m, a.heads, a.head_dim)
        k = self._linears.apply(prefix + "attn_k.weight", x).reshape(m, a.kv_heads, a.head_dim)
        v = self._linears.apply(prefix + "attn_v.weight", x).reshape(m, a.kv_heads, a.head_dim)
        self._keys[layer] = np.concatenate([self._keys[layer], self._rotate(k)])
        self._values[layer] = np.concatenate([self._values[layer], v])
        group = a.heads // a.kv_heads
        keys, values = self._keys[layer], self._values[layer]
        scores = np.einsum("mhd,nhd->hmn", self._rotate(q), np.repeat(keys, group, axis=1), optimize=True)
        scores /= np.float32(np.sqrt(a.head_dim))
        hidden = np.arange(len(keys))[None, :] > self.position + np.arange(m)[:, None]
        scores[:, hidden] = -np.inf
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        weights /= weights.sum(axis=-1, keepdims=True)
        mixed = np.einsum("hmn,nhd->mhd", weights, np.repeat(values, group, axis=1), optimize=True)
        return self._linears.apply(prefix + "attn_output.weight", mixed.reshape(m, a.q_width))
