"""A forward pass of every known family in plain numpy: short, slow, and independent of the engine.

``logits_of``/``rewind`` make it usable wherever an engine is measured. The matmuls go through ``Linears``:
``FloatLinears`` multiplies the dequantized weights in float32, ``QuantizedLinears`` does what w8a8 does,
``RotatedLinears`` what w8a8-rot does.
Embedding lookup, norms, rotary embedding, attention, routing and activation are float32 in both. What a model
has is decided by the tensors it holds; numbers come from the architecture record.
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


class RotatedLinears(QuantizedLinears):
    """The same after a Hadamard rotation of both operands along K."""

    def __init__(self, names: Iterable[str], weight: Callable[[str], np.ndarray]) -> None:
        super().__init__(names, lambda name: w8a8.hadamard(weight(name)))

    def apply(self, name: str, x: np.ndarray) -> np.ndarray:
        return super().apply(name, w8a8.hadamard(x))


LINEARS: dict[str, Callable[..., Linears]] = {
    "f32": FloatLinears,
    "w8a8": QuantizedLinears,
    "w8a8-rot": RotatedLinears,
}


class ReferenceDecoder:
    """Appends tokens to its cache; ``position`` is how many it holds. ``vectors`` are norms, biases, routers."""

    def __init__(
        self,
        architecture: Architecture,
        embedding: np.ndarray,
        vectors: dict[str, np.ndarray],
        linears: Linears,
    ) -> None:
        self.architecture = architecture
        self._linears = linears
        self._embedding = embedding
        self._vectors = vectors
        self._keys: list[np.ndarray] = []
        self._values: list[np.ndarray] = []
        self._mixed: list[np.ndarray] = []
        self.position = 0
        self.rewind(0)

    @classmethod
    def from_gguf(cls, model: GgufFile, *, quant: str = "f32") -> ReferenceDecoder:
        """All weights are read here; the file may be closed afterwards."""
        architecture = architecture_of(model)
        shapes = {name: info.shape for name, info in model.tensors.items()}

        def weight(name: str) -> np.ndarray:
            tensor, _, expert = name.partition("#")
            if tensor == "output.weight" and tensor not in shapes:
                tensor = "token_embd.weight"
            matrix = model.dequantized(tensor)
            return matrix[int(expert)] if expert else matrix

        names = ["output.weight"]
        vectors = {}
        for name, shape in shapes.items():
            if len(shape) == 3:
                names += [f"{name}#{expert}" for expert in range(shape[-1])]
            elif len(shape) == 1 or "ffn_gate_inp" in name or _of_a_scan(name):
                vectors[name] = model.dequantized(name)
            elif name.startswith("blk."):
                names.append(name)
        return cls(
            architecture, model.dequantized("token_embd.weight"), vectors, LINEARS[quant](names, weight)
        )

    def rewind(self, position: int) -> None:
        a = self.architecture
        if position == 0:
            empty = np.zeros((0, a.kv_heads, a.head_dim), dtype=np.float32)
            self._keys, self._values = [empty] * a.layers, [empty] * a.layers
            self._mixed = [np.zeros((0, a.scan.mixed if a.scan else 0), np.float32)] * a.layers
        self._keys = [keys[:position] for keys in self._keys]
        self._values = [values[:position] for values in self._values]
        self._mixed = [mixed[:position] for mixed in self._mixed]
        self.position = position

    def logits_of(self, tokens: Sequence[int]) -> np.ndarray:
        """float32 [len(tokens), vocabulary]."""
        logits = self._linears.apply("output.weight", self.hidden_of(tokens))
        return _capped(logits * np.float32(self.architecture.logit_scale), self.architecture.logit_cap)

    def hidden_of(self, tokens: Sequence[int]) -> np.ndarray:
        """The normalized state before the head, float32 [len(tokens), embedding]."""
        a = self.architecture
        x = self._embedding[np.asarray(tokens)]
        x = x * np.float32(np.sqrt(a.embedding) if a.name.startswith("gemma") else a.embedding_scale)
        some = np.float32(a.residual_scale)
        for layer in range(a.layers):
            prefix = f"blk.{layer}."
            mixer = self._scan if layer in a.scanning else self._attention
            branch = mixer(layer, prefix, self._norm_if(x, prefix + "attn_norm.weight"))
            x = x + some * self._norm_if(branch, prefix + "post_attention_norm.weight")
            if not a.feed_forward and not a.moe:
                continue
            h = self._norm_if(x, prefix + "ffn_norm.weight")
            branch = self._experts(prefix, h) if a.moe else self._feed_forward(prefix, h)
            x = x + some * self._norm_if(branch, prefix + "post_ffw_norm.weight")
        self.position += len(tokens)
        return self._norm(x, "output_norm.weight")

    def _feed_forward(self, prefix: str, h: np.ndarray, suffix: str = ".weight") -> np.ndarray:
        gate = self._linears.apply(f"{prefix}ffn_gate{suffix}", h)
        up = self._linears.apply(f"{prefix}ffn_up{suffix}", h)
        if self.architecture.name.startswith("gemma"):
            inner = np.sqrt(2 / np.pi) * (gate + 0.044715 * gate**3)
            active = (0.5 * gate * (1 + np.tanh(inner))).astype(np.float32)
        else:
            active = gate / (1 + np.exp(-gate))
        return self._linears.apply(f"{prefix}ffn_down{suffix}", active * up)

    def _experts(self, prefix: str, h: np.ndarray) -> np.ndarray:
        """Token by token: softmax over all experts, the best of them, their weights made to sum to one."""
        moe = self.architecture.moe
        assert moe is not None
        out = np.zeros_like(h)
        for row, token in enumerate(h):
            scores = self._vectors[prefix + "ffn_gate_inp.weight"] @ token
            chances = np.exp(scores - scores.max())
            chances /= chances.sum()
            chosen = np.argsort(-chances, kind="stable")[: moe.used]
            shares = chances[chosen] / max(chances[chosen].sum(), 6.103515625e-5)
            for expert, share in zip(chosen, shares, strict=True):
                result = self._feed_forward(prefix, token[None], f"_exps.weight#{expert}")
                out[row] += share * result[0]
        return out

    def _norm(self, x: np.ndarray, name: str) -> np.ndarray:
        mean = np.mean(x * x, axis=-1, keepdims=True, dtype=np.float32)
        return x / np.sqrt(mean + np.float32(self.architecture.norm_eps)) * self._vectors[name]

    def _norm_if(self, x: np.ndarray, name: str) -> np.ndarray:
        return self._norm(x, name) if name in self._vectors else x

    def _rotate(self, x: np.ndarray, layer: int = 0) -> np.ndarray:
        """x [M, heads, head_dim] turned by its positions."""
        a = self.architecture
        if layer in a.unrotated:
            return x
        rope = a.local_rope if a.local_rope and a.windows[layer] else a.rope
        pair = np.arange(rope.dims // 2)
        frequency = rope.base ** (-2.0 * pair / rope.dims) / np.asarray(rope.factors or 1.0) / rope.stretch
        angle = (self.position + np.arange(len(x)))[:, None, None] * frequency
        cos, sin = np.cos(angle).astype(np.float32), np.sin(angle).astype(np.float32)
        first, second = (2 * pair, 2 * pair + 1) if rope.pairing == "norm" else (pair, pair + rope.dims // 2)
        out = x.copy()
        out[..., first] = x[..., first] * cos - x[..., second] * sin
        out[..., second] = x[..., first] * sin + x[..., second] * cos
        return out

    def _heads(self, prefix: str, part: str, x: np.ndarray, count: int) -> np.ndarray:
        """One of q, k, v as [M, count, head_dim], with its bias and norm where the model has them."""
        flat = self._linears.apply(f"{prefix}attn_{part}.weight", x)
        flat = flat + self._vectors.get(f"{prefix}attn_{part}.bias", np.float32(0))
        norm, shape = f"{prefix}attn_{part}_norm.weight", (len(x), count, self.architecture.head_dim)
        if len(self._vectors.get(norm, ())) == flat.shape[1]:
            return self._norm(flat, norm).reshape(shape)
        return self._norm_if(flat.reshape(shape), norm)

    def _attention(self, layer: int, prefix: str, x: np.ndarray) -> np.ndarray:
        a = self.architecture
        m = len(x)
        q = self._rotate(self._heads(prefix, "q", x, a.heads), layer)
        k = self._rotate(self._heads(prefix, "k", x, a.kv_heads), layer)
        v = self._heads(prefix, "v", x, a.kv_heads)
        self._keys[layer] = np.concatenate([self._keys[layer], k])
        self._values[layer] = np.concatenate([self._values[layer], v])
        group = a.heads // a.kv_heads
        keys, values = self._keys[layer], self._values[layer]
        scores = np.einsum("mhd,nhd->hmn", q, np.repeat(keys, group, axis=1), optimize=True)
        scores = _capped(scores * np.float32(a.attention_scale), a.attention_cap)
        behind = self.position + np.arange(m)[:, None] - np.arange(len(keys))[None, :]
        hidden = (behind < 0) | (behind >= (a.windows[layer] or len(keys)))
        scores[:, hidden] = -np.inf
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        weights /= weights.sum(axis=-1, keepdims=True)
        mixed = np.einsum("hmn,nhd->mhd", weights, np.repeat(values, group, axis=1), optimize=True)
        return self._linears.apply(prefix + "attn_output.weight", mixed.reshape(m, a.q_width))

    def _scan(self, layer: int, prefix: str, x: np.ndarray) -> np.ndarray:
        """All tokens from the first at once, as one masked product for each head: no state is carried."""
        s = self.architecture.scan
        assert s is not None
        vectors = {name: self._vectors[f"{prefix}{name}"].astype(np.float64) for name in _SCAN_VECTORS}
        self._mixed[layer] = np.concatenate(
            [self._mixed[layer], self._linears.apply(prefix + "ssm_in.weight", x)]
        )
        mixed = self._mixed[layer].astype(np.float64)
        tokens = len(mixed)
        gate, channels, time = np.split(mixed, [s.inner, s.inner + s.convolved], axis=1)
        padded = np.pad(channels, ((s.taps - 1, 0), (0, 0)))
        windows = np.lib.stride_tricks.sliding_window_view(padded, s.taps, axis=0)
        summed = np.einsum("mcj,cj->mc", windows, vectors["ssm_conv1d.weight"])
        channels = _silu(summed + vectors["ssm_conv1d.bias"])
        values, write, read = np.split(channels, [s.inner, s.inner + s.groups * s.state_size], axis=1)
        values = values.reshape(tokens, s.heads, s.head_dim)
        each = s.heads // s.groups
        write, read = (
            np.repeat(part.reshape(tokens, s.groups, s.state_size), each, axis=1) for part in (write, read)
        )
        time = np.logaddexp(0.0, time + vectors["ssm_dt.bias"])
        decayed = np.cumsum(time * vectors["ssm_a"].ravel(), axis=0)
        ago = decayed[:, None] - decayed[None]
        earlier = np.tril(np.ones((tokens, tokens), bool))[..., None]
        kept = np.exp(np.where(earlier, ago, -np.inf))
        weights = np.einsum("mhs,nhs->mnh", read, write) * kept * time[None]
        out = np.einsum("mnh,nhd->mhd", weights, values) + vectors["ssm_d"].ravel()[None, :, None] * values
        out = (out.reshape(tokens, s.inner) * _silu(gate))[-len(x) :].astype(np.float32)
        normed = self._norm(out.reshape(len(x), s.groups, -1), prefix + "ssm_norm.weight")
        return self._linears.apply(prefix + "ssm_out.weight", normed.reshape(len(x), s.inner))


_SCAN_VECTORS = ("ssm_conv1d.weight", "ssm_conv1d.bias", "ssm_dt.bias", "ssm_a", "ssm_d")


def _of_a_scan(name: str) -> bool:
    return name.split(".", 2)[-1] in (*_SCAN_VECTORS, "ssm_norm.weight")


def _silu(x: np.ndarray) -> np.ndarray:
    return x / (1 + np.exp(-x))


def _capped(x: np.ndarray, cap: float) -> np.ndarray:
    return np.float32(cap) * np.tanh(x / np.float32(cap)) if cap else x
