"""A tiny seeded random GGUF of every known family.

Widths are no multiples of 32 where a family allows it, heads are wider or narrower than embedding / heads,
windows are a few tokens, and biases and norms are far from what leaving them out would do.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tests.reference.tiny_models import VOCABULARY, TinyShape, write_tiny_llama

__all__ = ["TINY_FAMILIES", "TinyFamily", "family_weights", "write_tiny_family"]


@dataclass(frozen=True)
class TinyScan:
    """A state space mixer; what its projection is made of is in ``StateSpace``."""

    heads: int = 6
    head_dim: int = 16
    state: int = 24
    groups: int = 2
    taps: int = 4

    @property
    def metadata(self) -> dict[str, Any]:
        return {
            "attention.head_count": 0,
            "attention.head_count_kv": 0,
            "feed_forward_length": 0,
            "ssm.conv_kernel": self.taps,
            "ssm.inner_size": self.heads * self.head_dim,
            "ssm.state_size": self.state,
            "ssm.time_step_rank": self.heads,
            "ssm.group_count": self.groups,
        }


@dataclass(frozen=True)
class TinyFamily:
    """``head_size`` is the size of a head; ``metadata`` stands under the family's prefix.

    With ``scan`` all layers but the ``attending`` ones are that mixer.
    """

    architecture: str
    shape: TinyShape
    head_size: int
    biases: bool = False
    head_norms: bool = False
    post_norms: bool = False
    wide_norms: bool = False
    experts: int = 0
    expert_feed_forward: int = 0
    scan: TinyScan | None = None
    attending: tuple[int, ...] = ()
    metadata: dict[str, Any] = field(default_factory=dict)


def _shape(**changes: Any) -> TinyShape:
    values = {"layers": 3, "embedding": 112, "heads": 6, "kv_heads": 2, "feed_forward": 176, "norm_eps": 1e-6}
    return TinyShape(**(values | changes))


TINY_FAMILIES = {
    "llama": TinyFamily("llama", _shape(rope_factors=True), 16),
    "llama with biases": TinyFamily(
        "llama",
        _shape(tied_head=False),
        24,
        biases=True,
        metadata={"rope.scaling.type": "linear", "rope.scaling.factor": 2.0},
    ),
    "smollm3": TinyFamily("smollm3", _shape(layers=5, rope_base=5e6), 24),
    "granite": TinyFamily(
        "granite",
        _shape(tied_head=False),
        32,
        metadata={
            "embedding_scale": 1.5,
            "residual_scale": 0.4,
            "attention.scale": 0.125,
            "logit_scale": 0.5,
        },
    ),
    "granite without rotation": TinyFamily(
        "granite",
        _shape(tied_head=False),
        32,
        biases=True,
        metadata={"residual_scale": 0.5, "logit_scale": 2.0, "rope.scaling.finetuned": False},
    ),
    "internlm2": TinyFamily("internlm2", _shape(heads=7, kv_heads=1, tied_head=False), 16),
    "ernie4_5": TinyFamily("ernie4_5", _shape(rope_base=5e5), 32),
    "olmo2": TinyFamily(
        "olmo2", _shape(heads=7, kv_heads=1, tied_head=False), 16, wide_norms=True, post_norms=True
    ),
    "gemma": TinyFamily("gemma", _shape(heads=4, kv_heads=1), 48),
    "qwen2": TinyFamily("qwen2", _shape(heads=7, kv_heads=1, tied_head=False), 16, biases=True),
    "qwen3": TinyFamily("qwen3", _shape(rope_base=1e6), 40, head_norms=True),
    "gemma2": TinyFamily(
        "gemma2",
        _shape(heads=4),
        32,
        post_norms=True,
        metadata={
            "attention.sliding_window": 9,
            "attn_logit_softcapping": 8.0,
            "final_logit_softcapping": 12.0,
        },
    ),
    "gemma3": TinyFamily(
        "gemma3",
        _shape(layers=7, heads=4, kv_heads=1, rope_base=1e6),
        48,
        head_norms=True,
        post_norms=True,
        metadata={
            "attention.sliding_window": 16,
            "rope.scaling.type": "linear",
            "rope.scaling.factor": 8.0,
        },
    ),
    "qwen3moe": TinyFamily(
        "qwen3moe",
        _shape(),
        32,
        head_norms=True,
        experts=8,
        expert_feed_forward=80,
        metadata={"expert_used_count": 3},
    ),
    "mamba2": TinyFamily("mamba2", _shape(layers=4, feed_forward=0), 0, scan=TinyScan()),
    "mamba2 of 64 heads": TinyFamily(
        "mamba2", _shape(layers=2, feed_forward=0), 0, scan=TinyScan(heads=64, state=32, taps=3)
    ),
    "granitehybrid": TinyFamily(
        "granitehybrid",
        _shape(layers=5),
        24,
        biases=True,
        scan=TinyScan(heads=14),
        attending=(1, 4),
        metadata={
            "embedding_scale": 1.5,
            "residual_scale": 0.5,
            "attention.scale": 0.125,
            "logit_scale": 0.25,
            "rope.scaling.finetuned": False,
        },
    ),
}


def family_weights(family: TinyFamily, seed: int = 0) -> dict[str, np.ndarray]:
    """Name → float32 array, rows first; experts' weights are [experts, N, K]."""
    rng = np.random.default_rng(seed)
    shape = family.shape
    d, ff = shape.embedding, shape.feed_forward
    q, kv = shape.heads * family.head_size, shape.kv_heads * family.head_size

    def matrix(*dims: int, gain: float = 1.0) -> np.ndarray:
        return (rng.standard_normal(dims) * gain / np.sqrt(dims[-1])).astype(np.float32)

    def norm(size: int) -> np.ndarray:
        return (1.0 + 0.2 * rng.standard_normal(size)).astype(np.float32)

    spread = 0.5 / np.sqrt(d) if family.architecture.startswith("gemma") else 0.5
    weights = {"token_embd.weight": (rng.standard_normal((VOCABULARY, d)) * spread).astype(np.float32)}
    for layer in range(shape.layers):
        scans = family.scan is not None and layer not in family.attending
        if family.scan is not None and scans:
            part = _scan_weights(family.scan, d, rng)
        else:
            part = {
                "attn_norm.weight": norm(d),
                "attn_q.weight": matrix(q, d, gain=2.0),
                "attn_k.weight": matrix(kv, d, gain=2.0),
                "attn_v.weight": matrix(kv, d),
                "attn_output.weight": matrix(d, q),
            }
        if not ff:
            weights |= {f"blk.{layer}.{name}": array for name, array in part.items()}
            continue
        part |= {"ffn_norm.weight": norm(d)}
        if family.biases and not scans:
            part |= {f"attn_{x}.bias": matrix(q if x == "q" else kv, gain=2.0) * 8 for x in "qkv"}
        if family.head_norms:
            part |= {f"attn_{x}_norm.weight": norm(family.head_size) for x in "qk"}
        if family.wide_norms:
            del part["attn_norm.weight"], part["ffn_norm.weight"]
            part |= {"attn_q_norm.weight": norm(q), "attn_k_norm.weight": norm(kv)}
        if family.post_norms:
            part |= {"post_attention_norm.weight": norm(d), "post_ffw_norm.weight": norm(d)}
        if family.experts:
            e, eff = family.experts, family.expert_feed_forward
            part |= {
                "ffn_gate_inp.weight": matrix(e, d, gain=3.0),
                "ffn_gate_exps.weight": matrix(e, eff, d),
                "ffn_up_exps.weight": matrix(e, eff, d),
                "ffn_down_exps.weight": matrix(e, d, eff),
            }
        else:
            part |= {
                "ffn_gate.weight": matrix(ff, d),
                "ffn_up.weight": matrix(ff, d),
                "ffn_down.weight": matrix(d, ff),
            }
        weights |= {f"blk.{layer}.{name}": array for name, array in part.items()}
    weights["output_norm.weight"] = norm(d)
    if not shape.tied_head:
        weights["output.weight"] = matrix(VOCABULARY, d, gain=4.0)
    elif spread < 0.5:
        # A tied head would give logits near zero: the norm before it makes up for the small embedding.
        weights["output_norm.weight"] *= np.float32(np.sqrt(d))
    if shape.rope_factors:
        weights["rope_freqs.weight"] = np.linspace(1.0, 4.0, family.head_size // 2, dtype=np.float32)
    return weights


def _scan_weights(scan: TinyScan, d: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Time steps of 0.02 to 1 and decays that forget within some to some hundred tokens."""
    inner = scan.heads * scan.head_dim
    convolved = inner + 2 * scan.groups * scan.state
    steps = np.geomspace(0.02, 1.0, scan.heads)
    found = {
        "attn_norm.weight": 1.0 + 0.2 * rng.standard_normal(d),
        "ssm_in.weight": rng.standard_normal((inner + convolved + scan.heads, d)) * 1.5 / np.sqrt(d),
        "ssm_conv1d.weight": rng.standard_normal((convolved, scan.taps)) * 0.7,
        "ssm_conv1d.bias": rng.standard_normal(convolved) * 0.2,
        "ssm_dt.bias": np.log(np.expm1(steps)),
        "ssm_a": -np.geomspace(0.1, 2.0, scan.heads)[:, None],
        "ssm_d": 1.0 + 0.3 * rng.standard_normal((scan.heads, 1)),
        "ssm_norm.weight": 1.0 + 0.2 * rng.standard_normal((scan.groups, inner // scan.groups)),
        "ssm_out.weight": rng.standard_normal((d, inner)) / np.sqrt(inner),
    }
    return {name: array.astype(np.float32) for name, array in found.items()}


def write_tiny_family(
    path: Path, name: str, *, seed: int = 0, weights: dict[str, np.ndarray] | None = None, **changes: Any
) -> Path:
    """Write the model and return ``path``. ``changes`` are metadata keys without prefix, dots as ``__``;
    ``weights`` replaces those of ``family_weights``.
    """
    family = TINY_FAMILIES[name]
    heads = ("attention.key_length", "attention.value_length", "rope.dimension_count")
    keys: dict[str, Any] = dict.fromkeys(heads, family.head_size) if family.head_size else {}
    if family.scan:
        keys |= family.scan.metadata
    if family.attending:
        shape = family.shape
        keys["attention.head_count"] = shape.heads
        keys["attention.head_count_kv"] = [
            shape.kv_heads if layer in family.attending else 0 for layer in range(shape.layers)
        ]
        keys["feed_forward_length"] = shape.feed_forward
    if family.experts:
        keys |= {"expert_count": family.experts, "expert_feed_forward_length": family.expert_feed_forward}
    keys |= family.metadata | {key.replace("__", "."): value for key, value in changes.items()}
    return write_tiny_llama(
        path,
        shape=family.shape,
        architecture=family.architecture,
        metadata={f"{family.architecture}.{key}": value for key, value in keys.items()},
        weights=weights or family_weights(family, seed),
    )
