"""Experts in a pack: one weight each under ``tensor#number``, used as they lie there."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from orkbench_tui.errors import InvalidFileError
from orkbench_tui.runner.engine import Engine
from orkbench_tui.runner.gguf_file import GgufFile
from orkbench_tui.runner.gguf_weights import GgufWeights
from orkbench_tui.runner.models.architecture import canonical_key, expert_name, split_expert_name
from orkbench_tui.runner.orkpack.reader import OrkPack, _joined
from orkbench_tui.runner.quantize.int8 import quantize_rows
from orkbench_tui.runner.quantize.pack_model import pack_gguf
from tests.reference.tiny_families import TINY_FAMILIES, write_tiny_family

FAMILY = TINY_FAMILIES["qwen3moe"]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return write_tiny_family(tmp_path / "m.gguf", "qwen3moe", seed=4)


def test_every_expert_is_a_weight_of_its_own_quantized_alone(source: Path, tmp_path: Path) -> None:
    pack_gguf(source, tmp_path / "m.orkpack")
    with OrkPack.open(tmp_path / "m.orkpack") as pack, GgufFile.open(source) as model:
        numbered = [name for name in pack.packed_names if "#" in name]
        assert len(numbered) == FAMILY.experts * 3 * FAMILY.shape.layers
        for name in numbered[::5]:
            tensor, expert = split_expert_name(name)
            assert expert is not None
            rows = model.dequantized(tensor)[expert]
            packed = pack.packed(name)
            tiles, scales = quantize_rows(np.ascontiguousarray(rows), name, rotation=packed.rotation)
            assert rows.shape == (packed.N, packed.K)
            assert packed.tiles.tobytes() == tiles.tobytes()
            assert packed.scales.tobytes() == scales.tobytes()
            assert GgufWeights(model).raw(name).tobytes() == rows.tobytes()


def test_a_pack_opened_again_computes_the_same_bits(source: Path, tmp_path: Path) -> None:
    pack_gguf(source, tmp_path / "m.orkpack")
    results = []
    for _ in range(2):
        with OrkPack.open(tmp_path / "m.orkpack") as pack:
            results.append(Engine.from_pack(pack).logits_of([5, 80, 200, 7, 7, 31]).tobytes())
    assert results[0] == results[1]


def test_numbers_are_counted_as_numbers() -> None:
    names = [expert_name("blk.2.ffn_up_exps.weight", number) for number in (10, 9, 1)]
    assert sorted(names, key=canonical_key) == [names[2], names[1], names[0]]
    assert split_expert_name("blk.0.attn_q.weight") == ("blk.0.attn_q.weight", None)
    assert split_expert_name("#3") == ("", 3)


@pytest.mark.parametrize(
    ("numbers", "left"),
    [((0, 1, 2), {"t": (4, 8, 3)}), ((0, 2), {"t": (4, 8, 1), "t#2": (4, 8)}), ((1,), {"t#1": (4, 8)})],
)
def test_a_number_left_out_is_not_joined(numbers: tuple[int, ...], left: dict[str, tuple[int, ...]]) -> None:
    assert _joined({expert_name("t", number): (4, 8) for number in numbers}) == left


def test_a_tensor_of_fewer_experts_than_stated_is_refused(tmp_path: Path) -> None:
    with (
        GgufFile.open(write_tiny_family(tmp_path / "m.gguf", "qwen3moe", expert_count=9)) as model,
        pytest.raises(
            InvalidFileError, match=r"ffn_gate_inp\.weight has the shape \[112, 8\], expected \[112, 9\]"
        ),
    ):
        _ = GgufWeights(model).architecture


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"expert_used_count": 9}, "expert_used_count is 9, allowed are 1..8"),
        ({"expert_shared_count": 1}, "expert_shared_count is 1"),
        ({"expert_weights_scale": 2.5}, "expert_weights_scale is 2.5"),
        ({"expert_gating_func": 2}, "expert_gating_func is 2"),
        ({"attention__causal": False}, "attention.causal is False"),
    ],
)
def test_what_is_not_computed_is_refused(tmp_path: Path, changes: dict[str, float], message: str) -> None:
    with (
        GgufFile.open(write_tiny_family(tmp_path / "m.gguf", "qwen3moe", **changes)) as model,
        pytest.raises(InvalidFileError, match=message),
    ):
        _ = GgufWeights(model).architecture
