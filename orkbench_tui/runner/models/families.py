"""Model families as data: which tensors a family has, their shapes, and what sets it apart.

A new family is a new row here as long as its mathematics is something the engine already does.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import Literal

__all__ = ["FAMILIES", "Family", "GateName", "LayerKind", "Pairing", "Role", "TensorRule", "Windows"]

# How rotary embedding pairs the elements of a head: (2i, 2i+1), or (i, i + dims/2).
Pairing = Literal["norm", "neox"]
# What the feed-forward gate passes through.
GateName = Literal["silu", "gelu_tanh"]


# How layers mix tokens; a family may have some of each kind.
LayerKind = Literal["attention", "scan"]


class Role(Enum):
    EMBEDDING = "embedding"
    LINEAR = "linear"
    EXPERTS = "experts"
    ROUTER = "router"
    BIAS = "bias"
    NORM = "norm"
    SCAN = "scan"
    ROPE_FACTORS = "rope factors"


@dataclass(frozen=True, slots=True)
class TensorRule:
    """A tensor a family has. ``{layer}`` in ``pattern`` stands for each layer's number.

    ``shape`` names dimensions of the architecture, or is a number, fastest first. ``only`` layers of that kind have
    it, where it is given. An ``optional`` tensor is in every such layer or in none.
    """

    pattern: str
    role: Role
    shape: tuple[str, ...]
    optional: bool = False
    only: LayerKind | None = None

    @property
    def per_layer(self) -> bool:
        return "{layer}" in self.pattern


@dataclass(frozen=True, slots=True)
class Windows:
    """Sliding-window attention: every ``pattern``-th layer sees everything, those between only a window.

    ``pattern`` and ``length`` hold where the file does not say; no ``length`` means that it must.
    ``local_base`` is the rotary base of the layers with a window, None where it is the same.
    """

    pattern: int
    length: int | None = None
    local_base: float | None = None


@dataclass(frozen=True, slots=True)
class Family:
    """What distinguishes a family; ``refused_keys`` are metadata that would change its mathematics.

    ``scales_embedding``: embeddings are multiplied by the root of their width.
    ``scaled``: the file may have numbers that embeddings, what each part of a layer adds, and logits are scaled by.
    ``unrotated_every``: each so-many-th layer does without rotary embedding, 0 for none; ``rotary_switch``: the
    file may say that all do.
    ``width_scaled_layers``: models of this many layers scale queries by the root of embedding / heads
    instead of the root of the head's size.
    ``attention_cap``, ``logit_cap``: soft caps where the file does not say, 0 is none; ``capped``: whether
    a file may set them.
    """

    name: str
    models: str
    pairing: Pairing
    tensors: tuple[TensorRule, ...]
    gate: GateName = "silu"
    scales_embedding: bool = False
    scaled: bool = False
    unrotated_every: int = 0
    rotary_switch: bool = False
    windows: Windows | None = None
    width_scaled_layers: tuple[int, ...] = ()
    capped: bool = False
    attention_cap: float = 0.0
    logit_cap: float = 0.0
    refused_keys: tuple[str, ...] = ()

    @property
    def scans(self) -> bool:
        """Whether layers of it mix tokens by a state space scan."""
        return any(rule.role is Role.SCAN for rule in self.tensors)

    @property
    def attends(self) -> bool:
        """Whether layers of it do so by attention."""
        return any(rule.pattern.endswith(".attn_q.weight") for rule in self.tensors)


def _layer(name: str, role: Role, *shape: str, optional: bool = False) -> TensorRule:
    return TensorRule(f"blk.{{layer}}.{name}", role, shape, optional)


def _only(kind: LayerKind, rules: tuple[TensorRule, ...]) -> tuple[TensorRule, ...]:
    return tuple(replace(rule, only=kind) for rule in rules)


_ENDS = (
    TensorRule("token_embd.weight", Role.EMBEDDING, ("embedding", "vocab_size")),
    TensorRule("output_norm.weight", Role.NORM, ("embedding",)),
    TensorRule("output.weight", Role.LINEAR, ("embedding", "vocab_size"), optional=True),
)
_ROPE_FACTORS = TensorRule("rope_freqs.weight", Role.ROPE_FACTORS, ("rope_pairs",), optional=True)
_ATTENTION = (
    _layer("attn_norm.weight", Role.NORM, "embedding"),
    _layer("attn_q.weight", Role.LINEAR, "embedding", "q_width"),
    _layer("attn_k.weight", Role.LINEAR, "embedding", "kv_width"),
    _layer("attn_v.weight", Role.LINEAR, "embedding", "kv_width"),
    _layer("attn_output.weight", Role.LINEAR, "q_width", "embedding"),
)
_HEAD_NORMS = (
    _layer("attn_q_norm.weight", Role.NORM, "head_dim"),
    _layer("attn_k_norm.weight", Role.NORM, "head_dim"),
)
_WIDE_NORMS = (
    _layer("attn_q_norm.weight", Role.NORM, "q_width"),
    _layer("attn_k_norm.weight", Role.NORM, "kv_width"),
)
_POST_NORMS = (
    _layer("post_attention_norm.weight", Role.NORM, "embedding"),
    _layer("post_ffw_norm.weight", Role.NORM, "embedding"),
)
_FEED_FORWARD = (
    _layer("ffn_norm.weight", Role.NORM, "embedding"),
    _layer("ffn_gate.weight", Role.LINEAR, "embedding", "feed_forward"),
    _layer("ffn_up.weight", Role.LINEAR, "embedding", "feed_forward"),
    _layer("ffn_down.weight", Role.LINEAR, "feed_forward", "embedding"),
)
_SCAN = (
    _layer("attn_norm.weight", Role.NORM, "embedding"),
    _layer("ssm_in.weight", Role.LINEAR, "embedding", "scan.mixed"),
    _layer("ssm_conv1d.weight", Role.SCAN, "scan.taps", "scan.convolved"),
    _layer("ssm_conv1d.bias", Role.SCAN, "scan.convolved"),
    _layer("ssm_dt.bias", Role.SCAN, "scan.heads"),
    _layer("ssm_a", Role.SCAN, "1", "scan.heads"),
    _layer("ssm_d", Role.SCAN, "1", "scan.heads"),
    _layer("ssm_norm.weight", Role.SCAN, "scan.norm_width", "scan.groups"),
    _layer("ssm_out.weight", Role.LINEAR, "scan.inner", "embedding"),
)
_EXPERTS = (
    _layer("ffn_norm.weight", Role.NORM, "embedding"),
    _layer("ffn_gate_inp.weight", Role.ROUTER, "embedding", "experts"),
    _layer("ffn_gate_exps.weight", Role.EXPERTS, "embedding", "expert_feed_forward", "experts"),
    _layer("ffn_up_exps.weight", Role.EXPERTS, "embedding", "expert_feed_forward", "experts"),
    _layer("ffn_down_exps.weight", Role.EXPERTS, "expert_feed_forward", "embedding", "experts"),
)


def _biases(*, optional: bool) -> tuple[TensorRule, ...]:
    return (
        _layer("attn_q.bias", Role.BIAS, "q_width", optional=optional),
        _layer("attn_k.bias", Role.BIAS, "kv_width", optional=optional),
        _layer("attn_v.bias", Role.BIAS, "kv_width", optional=optional),
    )


FAMILIES: dict[str, Family] = {
    family.name: family
    for family in (
        Family(
            name="llama",
            models="SmolLM2, Llama 2 and 3, TinyLlama, Mistral",
            pairing="norm",
            tensors=(*_ENDS, _ROPE_FACTORS, *_ATTENTION, *_biases(optional=True), *_FEED_FORWARD),
            refused_keys=("expert_count", "attention.clamp_kqv"),
        ),
        Family(
            name="smollm3",
            models="SmolLM3",
            pairing="norm",
            tensors=(*_ENDS, *_ATTENTION, *_FEED_FORWARD),
            unrotated_every=4,
        ),
        Family(
            name="granite",
            models="Granite 3 and 4 (dense)",
            pairing="norm",
            tensors=(*_ENDS, *_ATTENTION, *_biases(optional=True), *_FEED_FORWARD),
            scaled=True,
            rotary_switch=True,
            refused_keys=("expert_count",),
        ),
        Family(
            name="internlm2",
            models="InternLM 2 and 2.5",
            pairing="norm",
            tensors=(*_ENDS, *_ATTENTION, *_biases(optional=True), *_FEED_FORWARD),
        ),
        Family(
            name="ernie4_5",
            models="ERNIE 4.5 (dense)",
            pairing="norm",
            tensors=(*_ENDS, *_ATTENTION, *_FEED_FORWARD),
            refused_keys=("expert_count",),
        ),
        Family(
            name="olmo2",
            models="OLMo 2",
            pairing="neox",
            tensors=(*_ENDS, *_ATTENTION[1:], *_WIDE_NORMS, *_POST_NORMS, *_FEED_FORWARD[1:]),
        ),
        Family(
            name="qwen2",
            models="Qwen 2 and 2.5, Qwen2.5-Coder",
            pairing="neox",
            tensors=(*_ENDS, *_ATTENTION, *_biases(optional=False), *_FEED_FORWARD),
        ),
        Family(
            name="qwen3",
            models="Qwen 3",
            pairing="neox",
            tensors=(*_ENDS, *_ATTENTION, *_HEAD_NORMS, *_FEED_FORWARD),
        ),
        Family(
            name="qwen3moe",
            models="Qwen 3 with experts (30B-A3B)",
            pairing="neox",
            tensors=(*_ENDS, *_ATTENTION, *_HEAD_NORMS, *_EXPERTS),
            refused_keys=("expert_shared_count", "expert_weights_scale"),
        ),
        Family(
            name="mamba2",
            models="Mamba-2, Codestral Mamba",
            pairing="norm",
            tensors=(*_ENDS, *_SCAN),
        ),
        Family(
            name="granitehybrid",
            models="Granite 4 H (dense)",
            pairing="norm",
            tensors=(
                *_ENDS,
                *_ATTENTION[:1],
                *_only("attention", (*_ATTENTION[1:], *_biases(optional=True))),
                *_only("scan", _SCAN[1:]),
                *_FEED_FORWARD,
            ),
            scaled=True,
            rotary_switch=True,
            refused_keys=("expert_count",),
        ),
        Family(
            name="gemma",
            models="Gemma 1",
            pairing="neox",
            tensors=(*_ENDS, *_ATTENTION, *_FEED_FORWARD),
            gate="gelu_tanh",
            scales_embedding=True,
        ),
        Family(
            name="gemma2",
            models="Gemma 2",
            pairing="neox",
            tensors=(*_ENDS, *_ATTENTION, *_POST_NORMS, *_FEED_FORWARD),
            gate="gelu_tanh",
            scales_embedding=True,
            windows=Windows(pattern=2, length=4096),
            width_scaled_layers=(46,),
            capped=True,
            attention_cap=50.0,
            logit_cap=30.0,
        ),
        Family(
            name="gemma3",
            models="Gemma 3 (text)",
            pairing="neox",
            tensors=(*_ENDS, *_ATTENTION, *_HEAD_NORMS, *_POST_NORMS, *_FEED_FORWARD),
            gate="gelu_tanh",
            scales_embedding=True,
            windows=Windows(pattern=6, local_base=10000.0),
            width_scaled_layers=(62,),
            capped=True,
        ),
    )
}
