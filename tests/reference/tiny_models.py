"""Tiny seeded random GGUF models: every test of the runner can have a whole model without a download.

Llama family, byte-level vocabulary of 288 tokens ("gpt2" model, "smollm" pre-tokenizer, a few merges,
ChatML control tokens and template). Weights are scaled so that logits spread by a few units, which makes
a wrong pairing, a missing norm or a transposed matrix visible.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import gguf
import numpy as np

CONTROL_TOKENS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
ENDOFTEXT, IM_START, IM_END = 0, 1, 2
VOCABULARY = 288
CHATML = (
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + message['content'] + "
    "'<|im_end|>' + '\\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
_MERGED_WORDS = (
    "Ġt",
    "he",
    "Ġa",
    "in",
    "re",
    "on",
    "er",
    "Ġthe",
    "Ġs",
    "at",
    "Ġo",
    "en",
    "Ġc",
    "it",
    "is",
    "or",
    "es",
)
_MERGED_MORE = ("ing", "Ġp", "Ġf", "Ġw", "ed", "an", "ou", "Ġb", "al", "ar", "Ġm", "Ġin", "and")


@dataclass(frozen=True)
class TinyShape:
    """Dimensions of a tiny model. The defaults have K and N that are no powers of two and GQA."""

    layers: int = 3
    embedding: int = 128
    heads: int = 4
    kv_heads: int = 2
    feed_forward: int = 352
    context_length: int = 512
    rope_base: float = 10000.0
    norm_eps: float = 1e-5
    tied_head: bool = True
    rope_factors: bool = False

    @property
    def head_dim(self) -> int:
        return self.embedding // self.heads


def byte_symbols() -> list[str]:
    """The printable character that stands for each byte in byte-level vocabularies."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    table = {byte: chr(byte) for byte in printable}
    for extra, byte in enumerate(byte for byte in range(256) if byte not in table):
        table[byte] = chr(256 + extra)
    return [table[byte] for byte in range(256)]


def vocabulary() -> tuple[list[str], list[str]]:
    """(tokens, merges); the merges are the splits of the merged words that the vocabulary can make."""
    tokens = [*CONTROL_TOKENS, *byte_symbols()]
    merges: list[str] = []
    for word in (*_MERGED_WORDS, *_MERGED_MORE):
        if len(tokens) == VOCABULARY:
            break
        for cut in range(len(word) - 1, 0, -1):
            if word[:cut] in tokens and word[cut:] in tokens:
                merges.append(f"{word[:cut]} {word[cut:]}")
                tokens.append(word)
                break
    assert len(tokens) == VOCABULARY
    return tokens, merges


def random_weights(shape: TinyShape, seed: int = 0) -> dict[str, np.ndarray]:
    """Name → float32 array, rows first ([N, K] for matmul weights)."""
    rng = np.random.default_rng(seed)
    d, ff, kv = shape.embedding, shape.feed_forward, shape.kv_heads * shape.head_dim

    def matrix(n: int, k: int, gain: float = 1.0) -> np.ndarray:
        return (rng.standard_normal((n, k)) * gain / np.sqrt(k)).astype(np.float32)

    def norm() -> np.ndarray:
        return (1.0 + 0.1 * rng.standard_normal(d)).astype(np.float32)

    weights = {"token_embd.weight": (rng.standard_normal((VOCABULARY, d)) * 0.5).astype(np.float32)}
    for layer in range(shape.layers):
        prefix = f"blk.{layer}."
        weights |= {
            prefix + "attn_norm.weight": norm(),
            # Larger queries and keys: attention that looks at something instead of averaging.
            prefix + "attn_q.weight": matrix(d, d, 2.0),
            prefix + "attn_k.weight": matrix(kv, d, 2.0),
            prefix + "attn_v.weight": matrix(kv, d),
            prefix + "attn_output.weight": matrix(d, d),
            prefix + "ffn_norm.weight": norm(),
            prefix + "ffn_gate.weight": matrix(ff, d),
            prefix + "ffn_up.weight": matrix(ff, d),
            prefix + "ffn_down.weight": matrix(d, ff),
        }
    weights["output_norm.weight"] = norm()
    if not shape.tied_head:
        weights["output.weight"] = matrix(VOCABULARY, d, 4.0)
    if shape.rope_factors:
        weights["rope_freqs.weight"] = np.linspace(1.0, 4.0, shape.head_dim // 2, dtype=np.float32)
    return weights


def write_tiny_llama(
    path: Path,
    *,
    seed: int = 0,
    quant: Literal["F32", "F16", "Q8_0", "Q4_1", "Q4_0"] = "F32",
    shape: TinyShape | None = None,
    architecture: str = "llama",
    metadata: dict[str, int | float | str | bool | list[int] | list[float] | list[bool]] | None = None,
    weights: dict[str, np.ndarray] | None = None,
) -> Path:
    """Write a model and return ``path``.

    Matrices are stored as ``quant``, vectors as F32. ``metadata`` adds or overrides integer, float, string,
    bool or list keys; ``weights`` replaces the seeded random ones.
    """
    shape = shape or TinyShape()
    writer = gguf.GGUFWriter(path, architecture)
    values: dict[str, int | float | str | bool | list[int] | list[float] | list[bool]] = {
        "general.name": "Tiny Random Llama",
        "general.license": "cc0-1.0",
        f"{architecture}.block_count": shape.layers,
        f"{architecture}.context_length": shape.context_length,
        f"{architecture}.embedding_length": shape.embedding,
        f"{architecture}.feed_forward_length": shape.feed_forward,
        f"{architecture}.attention.head_count": shape.heads,
        f"{architecture}.attention.head_count_kv": shape.kv_heads,
        f"{architecture}.attention.layer_norm_rms_epsilon": shape.norm_eps,
        f"{architecture}.rope.freq_base": shape.rope_base,
        f"{architecture}.rope.dimension_count": shape.head_dim,
        f"{architecture}.vocab_size": VOCABULARY,
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "smollm",
        "tokenizer.ggml.bos_token_id": IM_START,
        "tokenizer.ggml.eos_token_id": IM_END,
        "tokenizer.ggml.unknown_token_id": ENDOFTEXT,
        "tokenizer.ggml.padding_token_id": IM_END,
        "tokenizer.ggml.add_bos_token": False,
        "tokenizer.ggml.add_space_prefix": False,
        "tokenizer.chat_template": CHATML,
    }
    values.update(metadata or {})
    for key, value in values.items():
        _add(writer, key, value)
    tokens, merges = vocabulary()
    writer.add_token_list(tokens)
    writer.add_token_types([3] * len(CONTROL_TOKENS) + [1] * (len(tokens) - len(CONTROL_TOKENS)))
    writer.add_token_merges(merges)
    for name, array in (weights or random_weights(shape, seed)).items():
        kind = gguf.GGMLQuantizationType[quant if array.ndim > 1 else "F32"]
        writer.add_tensor(name, gguf.quants.quantize(array, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _add(
    writer: gguf.GGUFWriter, key: str, value: int | float | str | bool | list[int] | list[float] | list[bool]
) -> None:
    if isinstance(value, bool):
        writer.add_bool(key, value)
    elif isinstance(value, int):
        writer.add_uint32(key, value)
    elif isinstance(value, float):
        writer.add_float32(key, value)
    elif isinstance(value, str):
        writer.add_string(key, value)
    else:
        writer.add_array(key, value)
