"""Architectures: read from metadata, checked against every tensor, refused by name when unknown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from orkbench_tui.errors import InvalidFileError
from orkbench_tui.runner.gguf_file import GgufFile
from orkbench_tui.runner.models.architecture import Architecture, canonical_key
from orkbench_tui.runner.models.families import FAMILIES
from orkbench_tui.runner.models.read_architecture import architecture_of
from tests.reference.tiny_models import TinyShape, random_weights, write_tiny_llama

SHAPE = TinyShape(layers=2, embedding=64, heads=4, kv_heads=2, feed_forward=96)


def _read(tmp_path: Path, **changes: Any) -> Architecture:
    path = write_tiny_llama(tmp_path / "m.gguf", **({"shape": SHAPE} | changes))
    with GgufFile.open(path) as model:
        return architecture_of(model)


def test_every_field_comes_from_the_file(tmp_path: Path) -> None:
    a = _read(tmp_path)
    assert (a.name, a.layers, a.embedding, a.heads, a.kv_heads, a.head_dim) == ("llama", 2, 64, 4, 2, 16)
    assert (a.feed_forward, a.context_length, a.vocab_size, a.tied_head) == (96, 512, 288, True)
    assert (a.rope.base, a.rope.dims, a.rope.pairing, a.rope.factors) == (10000.0, 16, "norm", None)
    assert a.norm_eps == pytest.approx(1e-5)


def test_linears_have_their_shapes_and_the_canonical_order(tmp_path: Path) -> None:
    a = _read(tmp_path)
    shapes = {linear.name: (linear.K, linear.N) for linear in a.linears(1)}
    assert shapes == {
        "blk.1.attn_k.weight": (64, 32),
        "blk.1.attn_output.weight": (64, 64),
        "blk.1.attn_q.weight": (64, 64),
        "blk.1.attn_v.weight": (64, 32),
        "blk.1.ffn_down.weight": (96, 64),
        "blk.1.ffn_gate.weight": (64, 96),
        "blk.1.ffn_up.weight": (64, 96),
    }
    names = [linear.name for linear in a.all_linears()]
    assert names == sorted(names, key=canonical_key)
    assert len(names) == 2 * 7 + 1
    assert (a.head.name, a.head.K, a.head.N) == ("output.weight", 64, 288)


def test_linears_and_raw_tensors_are_all_there_is(tmp_path: Path) -> None:
    shape = TinyShape(
        layers=2, embedding=64, heads=4, kv_heads=2, feed_forward=96, tied_head=False, rope_factors=True
    )
    a = _read(tmp_path, shape=shape)
    assert not a.tied_head
    assert {linear.name for linear in a.all_linears()} | set(a.raw_tensors()) == set(random_weights(shape))
    assert a.rope.factors == pytest.approx(np.linspace(1.0, 4.0, 8))


def test_the_canonical_order_counts_layers_as_numbers() -> None:
    names = ["output.weight", "blk.10.a", "blk.9.b", "output_norm.weight", "token_embd.weight", "blk.9.a"]
    ordered = sorted(names, key=canonical_key)
    assert ordered == [
        "token_embd.weight",
        "blk.9.a",
        "blk.9.b",
        "blk.10.a",
        "output.weight",
        "output_norm.weight",
    ]


def test_head_counts_may_be_given_per_layer(tmp_path: Path) -> None:
    a = _read(tmp_path, metadata={"llama.attention.head_count_kv": [2, 2]})
    assert a.kv_heads == 2


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        (
            {"general.architecture": "mamba"},
            "architecture is mamba, known are: " + ", ".join(sorted(FAMILIES)),
        ),
        ({"llama.block_count": 0}, "block_count is 0"),
        ({"llama.block_count": "two"}, "block_count is 'two'"),
        ({"llama.attention.head_count_kv": 3}, "4 attention heads cannot share 3"),
        ({"llama.attention.head_count_kv": [2, 1]}, "differs between layers"),
        ({"llama.attention.head_count_kv": [2.0, 2.0]}, "not integers"),
        ({"llama.attention.head_count": [4]}, "has 1 values for 2 layers"),
        ({"llama.attention.layer_norm_rms_epsilon": 0.0}, "epsilon is 0.0"),
        ({"llama.attention.layer_norm_rms_epsilon": float("nan")}, "epsilon is nan"),
        ({"llama.rope.dimension_count": 15}, "must be even"),
        ({"llama.rope.dimension_count": 18}, "allowed are 2..16"),
        ({"llama.rope.scaling.type": "yarn", "llama.rope.scaling.factor": 4.0}, "scaled"),
        ({"llama.expert_count": 8}, "expert_count is 8"),
        ({"llama.vocab_size": 289}, "vocab_size is 289, its embedding has 288"),
        ({"llama.feed_forward_length": 128}, r"shape \[.*\], expected"),
        ({"llama.attention.key_length": 32}, "they must be equal|expected"),
    ],
)
def test_what_does_not_fit_is_named(tmp_path: Path, metadata: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidFileError, match=message):
        _read(tmp_path, metadata=metadata)


def test_missing_and_unknown_tensors_are_named(tmp_path: Path) -> None:
    weights = random_weights(SHAPE)
    gone = {name: array for name, array in weights.items() if name != "blk.1.ffn_up.weight"}
    with pytest.raises(InvalidFileError, match=r"blk\.1\.ffn_up\.weight is missing"):
        _read(tmp_path, weights=gone)
    extra = weights | {"blk.0.attn_sinks.weight": np.zeros(64, dtype=np.float32)}
    with pytest.raises(
        InvalidFileError, match=r"blk\.0\.attn_sinks\.weight is not part of architecture llama"
    ):
        _read(tmp_path, weights=extra)
    half = weights | {"blk.0.attn_q.bias": np.zeros(64, dtype=np.float32)}
    with pytest.raises(
        InvalidFileError, match=r"blk\.1\.attn_q\.bias is missing though other layers have it"
    ):
        _read(tmp_path, weights=half)
    beyond = weights | {"blk.2.attn_norm.weight": np.zeros(64, dtype=np.float32)}
    with pytest.raises(InvalidFileError, match=r"blk\.2\.attn_norm\.weight"):
        _read(tmp_path, weights=beyond)
