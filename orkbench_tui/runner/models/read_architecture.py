"""An architecture read from metadata and tensor shapes, and checked against every one of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from orkbench_tui.native.scan_steps import SCAN_STEP, TAPS_MAX
from orkbench_tui.runner.models.architecture import (
    EMBEDDING_NAME,
    HEAD_NAME,
    Architecture,
    Experts,
    Rope,
    StateSpace,
)
from orkbench_tui.runner.models.families import Family, Role, TensorRule
from orkbench_tui.runner.models.metadata_reader import MAX_LAYERS, MAX_SIZE, MetadataReader

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from orkbench_tui.runner.gguf_file import GgufFile

__all__ = ["architecture_of", "read_architecture"]

_MAX_EXPERTS = 4096
_MAX_STATE = 1 << 12
_SCALES = ("embedding_scale", "residual_scale", "logit_scale")


def architecture_of(model: GgufFile) -> Architecture:
    """The architecture of an open GGUF file."""
    shapes = {name: info.shape for name, info in model.tensors.items()}
    return read_architecture(model.metadata, shapes, model.dequantized, model.path.name)


def read_architecture(
    metadata: Mapping[str, Any],
    shapes: Mapping[str, tuple[int, ...]],
    vector: Callable[[str], NDArray[np.float32]],
    label: str,
) -> Architecture:
    """The architecture told by ``metadata``, checked against every tensor's shape (fastest dimension first).

    ``vector`` reads one small tensor as float32. InvalidFileError names an unknown family, a value out
    of range, and a tensor that is unknown, missing or of the wrong shape.
    """
    reader = MetadataReader(metadata, label)
    family = reader.family()
    layers = reader.integer("block_count", 1, MAX_LAYERS)
    embedding = reader.integer("embedding_length", 1, MAX_SIZE)
    if EMBEDDING_NAME not in shapes:
        raise reader.fail(f"tensor {EMBEDDING_NAME} is missing", "the file is not a whole model")
    if family.attends:
        architecture = _attending(reader, family, layers, embedding, shapes, vector)
    else:
        architecture = _scanning(reader, family, layers, embedding, shapes)
    reader.check_vocabulary(architecture.vocab_size)
    _check_tensors(reader, architecture, shapes)
    return architecture


def _scanning(
    reader: MetadataReader,
    family: Family,
    layers: int,
    embedding: int,
    shapes: Mapping[str, tuple[int, ...]],
) -> Architecture:
    return Architecture(
        name=family.name,
        layers=layers,
        embedding=embedding,
        heads=0,
        kv_heads=0,
        head_dim=0,
        feed_forward=0,
        context_length=reader.integer("context_length", 1, MAX_SIZE),
        vocab_size=shapes[EMBEDDING_NAME][-1],
        norm_eps=reader.real("attention.layer_norm_rms_epsilon", 0.0, 0.1),
        rope=Rope(1.0, 0, family.pairing),
        tied_head=HEAD_NAME not in shapes,
        attention_scale=0.0,
        windows=(0,) * layers,
        optional=frozenset(rule.pattern for rule in family.tensors if _has_optional(rule, layers, shapes)),
        scan=_state_space(reader, family),
        scanning=frozenset(range(layers)),
    )


def _state_space(reader: MetadataReader, family: Family) -> StateSpace:
    taps = reader.integer("ssm.conv_kernel", 1, TAPS_MAX)
    inner = reader.integer("ssm.inner_size", 1, MAX_SIZE)
    heads = reader.integer("ssm.time_step_rank", 1, MAX_SIZE)
    size = reader.integer("ssm.state_size", 1, _MAX_STATE)
    groups = reader.integer("ssm.group_count", 1, heads)
    if inner % heads:
        raise reader.fail(f"{family.name}.ssm.inner_size is {inner}, which {heads} heads do not divide")
    if heads % groups:
        raise reader.fail(f"{family.name}.ssm.group_count is {groups}, which does not divide {heads} heads")
    if inner // heads % SCAN_STEP:
        raise reader.fail(
            f"{family.name}.ssm.inner_size is {inner}, {inner // heads} for each of {heads} heads; "
            f"allowed are multiples of {SCAN_STEP}"
        )
    return StateSpace(taps, heads, inner // heads, size, groups)


def _attending(
    reader: MetadataReader,
    family: Family,
    layers: int,
    embedding: int,
    shapes: Mapping[str, tuple[int, ...]],
    vector: Callable[[str], NDArray[np.float32]],
) -> Architecture:
    heads = reader.per_layer("attention.head_count", layers)
    scanning = reader.without("attention.head_count_kv", layers) if family.scans else frozenset()
    kv_heads = reader.per_layer("attention.head_count_kv", layers, default=heads, but=scanning)
    if heads % kv_heads:
        raise reader.fail(f"{heads} attention heads cannot share {kv_heads} key/value heads")
    head_dim = reader.head_dim(embedding, heads)
    moe = _experts(reader, family, layers)
    width = embedding / heads if layers in family.width_scaled_layers else head_dim
    rope = _rope(reader, family, head_dim, shapes, vector)
    scales = {key: reader.scale(key) if family.scaled else 1.0 for key in _SCALES}
    return Architecture(
        name=family.name,
        layers=layers,
        embedding=embedding,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        feed_forward=0 if moe else reader.per_layer("feed_forward_length", layers),
        context_length=reader.integer("context_length", 1, MAX_SIZE),
        vocab_size=shapes[EMBEDDING_NAME][-1],
        norm_eps=reader.real("attention.layer_norm_rms_epsilon", 0.0, 0.1),
        rope=rope,
        tied_head=HEAD_NAME not in shapes,
        attention_scale=reader.real("attention.scale", 0.0, 1e3, default=1.0 / math.sqrt(width)),
        windows=reader.windows(family, layers),
        local_rope=_local_rope(reader, family, rope),
        gate=family.gate,
        embedding_scale=math.sqrt(embedding) if family.scales_embedding else scales["embedding_scale"],
        residual_scale=scales["residual_scale"],
        logit_scale=1.0 / scales["logit_scale"],
        attention_cap=reader.cap("attn_logit_softcapping", family.attention_cap) if family.capped else 0.0,
        logit_cap=reader.cap("final_logit_softcapping", family.logit_cap) if family.capped else 0.0,
        optional=frozenset(rule.pattern for rule in family.tensors if _has_optional(rule, layers, shapes)),
        moe=moe,
        scan=_state_space(reader, family) if scanning else None,
        scanning=scanning,
        unrotated=reader.unrotated(family, layers),
    )


def _has_optional(rule: TensorRule, layers: int, shapes: Mapping[str, tuple[int, ...]]) -> bool:
    numbers = range(layers) if rule.per_layer else (0,)
    return rule.optional and any(rule.pattern.format(layer=layer) in shapes for layer in numbers)


def _experts(reader: MetadataReader, family: Family, layers: int) -> Experts | None:
    if not any(rule.role is Role.EXPERTS for rule in family.tensors):
        return None
    reader.softmax_gating()
    count = reader.integer("expert_count", 1, _MAX_EXPERTS)
    used = reader.integer("expert_used_count", 1, count)
    return Experts(count, used, reader.per_layer("expert_feed_forward_length", layers))


def _rope(
    reader: MetadataReader,
    family: Family,
    head_dim: int,
    shapes: Mapping[str, tuple[int, ...]],
    vector: Callable[[str], NDArray[np.float32]],
) -> Rope:
    dims = reader.integer("rope.dimension_count", 2, head_dim, default=head_dim)
    if dims % 2:
        raise reader.fail(f"{family.name}.rope.dimension_count is {dims}, it must be even")
    factors: tuple[float, ...] | None = None
    for rule in family.tensors:
        if rule.role is Role.ROPE_FACTORS and rule.pattern in shapes:
            if shapes[rule.pattern] != (dims // 2,):
                raise reader.fail(
                    f"tensor {rule.pattern} is {list(shapes[rule.pattern])}, expected [{dims // 2}]"
                )
            factors = tuple(float(value) for value in vector(rule.pattern))
            if not all(math.isfinite(value) and value > 0 for value in factors):
                raise reader.fail(f"tensor {rule.pattern} holds a factor that is not a positive number")
    base = reader.real("rope.freq_base", 0.0, 1e12, default=10000.0)
    return Rope(base, dims, family.pairing, factors, _stretch(reader))


def _stretch(reader: MetadataReader) -> float:
    """What positions are divided by ("linear" scaling); other kinds are refused by name."""
    scaling = reader.optional("rope.scaling.type") or "none"
    if scaling == "none" or reader.optional("rope.scaling.factor") in (None, 0.0, 1.0):
        return 1.0
    if scaling != "linear":
        raise reader.fail(
            f"its rotary embedding is scaled by {scaling!r}, known is linear", "choose a model without it"
        )
    return reader.real("rope.scaling.factor", 0.0, 1e6)


def _local_rope(reader: MetadataReader, family: Family, rope: Rope) -> Rope | None:
    """Layers with a window turn by a base of their own, and are never stretched."""
    if family.windows is None or family.windows.local_base is None:
        return None
    base = reader.real("rope.freq_base_swa", 0.0, 1e12, default=family.windows.local_base)
    return Rope(base, rope.dims, rope.pairing)


def _check_tensors(
    reader: MetadataReader, architecture: Architecture, shapes: Mapping[str, tuple[int, ...]]
) -> None:
    expected = {name: (architecture.shape_of(rule), rule) for name, rule in architecture.tensors()}
    for name, (shape, rule) in expected.items():
        if name not in shapes:
            why = "though other layers have it" if rule.optional else ""
            raise reader.fail(
                f"tensor {name} is missing {why}".rstrip(), "the file is not a whole model: download it again"
            )
        if shapes[name] != shape:
            raise reader.fail(f"tensor {name} has the shape {list(shapes[name])}, expected {list(shape)}")
    for name in shapes:
        if name not in expected:
            raise reader.fail(
                f"tensor {name} is not part of architecture {architecture.name} as known here",
                "choose another model",
            )
