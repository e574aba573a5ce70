"""A model with experts from a pack that stores them in NF4: its logits, its places, and what stays in 4 bits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from orkbench_tui.native.library import portable_kernels
from orkbench_tui.runner.engine import Engine
from orkbench_tui.runner.gguf_file import GgufFile
from orkbench_tui.runner.linear import Int8Store
from orkbench_tui.runner.orkpack.layout import DType
from orkbench_tui.runner.orkpack.reader import OrkPack
from orkbench_tui.runner.quantize.int4 import NF4_LUT
from orkbench_tui.runner.quantize.pack_model import pack_gguf
from tests.reference import w8a8
from tests.reference.decoder import ReferenceDecoder
from tests.reference.tiny_experts import write_tiny_experts
from tests.reference.tiny_models import VOCABULARY
from tests.runner.exact_npu import ExactNpu

TOKENS = np.random.default_rng(3).integers(0, VOCABULARY, 70).tolist()


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_experts(tmp_path_factory.mktemp("nf4") / "m.gguf")


@pytest.fixture(scope="module")
def pack(source: Path) -> Iterator[OrkPack]:
    path = source.with_suffix(".orkpack")
    pack_gguf(source, path, scheme="nf4-mixed")
    with OrkPack.open(path) as opened:
        yield opened


class PackedLinears:
    """What the pack holds, decoded in numpy: int8 codes of inputs by int8 numbers of weights, rotated alike."""

    def __init__(self, pack: OrkPack) -> None:
        self._pack = pack

    def _weight(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        stored = self._pack.packed(name)
        if stored.dtype == DType.I8:
            return w8a8.untile(stored.data.view(np.int8), stored.N, stored.K), stored.scales
        assert stored.dtype == DType.I4_CODEBOOK and stored.multipliers is not None
        nibbles = stored.data.reshape(stored.N, -1)
        codes = np.stack([nibbles & 15, nibbles >> 4], axis=2).reshape(stored.N, stored.K)
        multipliers = np.repeat(stored.multipliers.astype(np.int32), 32, axis=1)
        return (NF4_LUT[codes].astype(np.int32) * multipliers + 64) >> 7, stored.scales

    def apply(self, name: str, x: np.ndarray) -> np.ndarray:
        weight, scales = self._weight(name)
        codes, code_scales = w8a8.quantize(w8a8.hadamard(x))
        sums = (codes.astype(np.int64) @ weight.T.astype(np.int64)).astype(np.float32)
        return sums * (code_scales[:, None] * scales[None, :])


@pytest.fixture(scope="module")
def expected(source: Path, pack: OrkPack) -> np.ndarray:
    with GgufFile.open(source) as model:
        reference = ReferenceDecoder.from_gguf(model)
    reference._linears = PackedLinears(pack)
    return reference.logits_of(TOKENS)


def test_experts_have_4_bits_and_attention_8(pack: OrkPack) -> None:
    kinds = {name: pack.packed(name).dtype for name in pack.packed_names}
    assert {kind for name, kind in kinds.items() if "_exps" in name} == {DType.I4_CODEBOOK}
    assert {kind for name, kind in kinds.items() if "_exps" not in name} == {DType.I8}


def test_the_engine_keeps_experts_in_4_bits_as_the_file_has_them(pack: OrkPack) -> None:
    """No tiles are made of them: the arrays are views of the mapped file."""
    store = Int8Store(pack, None)
    for linear in pack.architecture.all_linears():
        held = store[linear.name]
        if linear.index is None:
            assert held.rows is None and held.tiles.size
            continue
        assert held.rows is not None and not held.tiles.size
        stored = pack.packed(linear.name)
        assert np.shares_memory(held.rows.nibbles, stored.data)
        assert stored.multipliers is not None and held.rows.multipliers is not None
        assert np.shares_memory(held.rows.multipliers, stored.multipliers)


def test_logits_are_those_of_a_plain_forward_pass_with_the_same_weights(
    pack: OrkPack, expected: np.ndarray, source: Path
) -> None:
    got = Engine.from_pack(pack, context=128, cache_type="f32").logits_of(TOKENS)
    error = np.sqrt(np.mean(np.square(got - expected)))
    # An input at the edge between two codes may fall either way; in 4 bits against 32 everything differs.
    assert error < 0.02 * expected.std()
    with GgufFile.open(source) as model:
        exact = ReferenceDecoder.from_gguf(model).logits_of(TOKENS)
    assert np.sqrt(np.mean(np.square(got - exact))) > 5 * error


def test_the_same_bits_by_prompt_by_token_on_the_npu_and_on_any_processor(pack: OrkPack) -> None:
    whole = Engine.from_pack(pack, context=128).logits_of(TOKENS)
    one = Engine.from_pack(pack, context=128)
    by_token = np.stack([one.decode(token) for token in TOKENS])
    assert by_token.tobytes() == whole.tobytes()
    npu = ExactNpu()
    assert Engine.from_pack(pack, npu, context=128).logits_of(TOKENS).tobytes() == whole.tobytes()
    assert npu.counters.submits > 0
    with portable_kernels():
        assert Engine.from_pack(pack, context=128, threads=1).logits_of(TOKENS).tobytes() == whole.tobytes()


def test_no_expert_goes_to_the_npu(pack: OrkPack) -> None:
    engine = Engine.from_pack(pack, ExactNpu(), context=64)
    assert engine.residence is not None
    dense = [linear for linear in pack.architecture.all_linears() if linear.index is None]
    # All but the head.
    assert engine.residence.weights == engine.residence.expected == len(dense) - 1


def test_some_experts_of_a_tensor_in_8_bits_are_refused(pack: OrkPack) -> None:
    class Mixed:
        architecture, scheme, domain_of = pack.architecture, pack.scheme, pack.domain_of
        raw, raw_rows = staticmethod(pack.raw), staticmethod(pack.raw_rows)

        def packed(self, name: str) -> object:
            stored = pack.packed(name)
            if name != "blk.0.ffn_up_exps.weight#1":
                return stored
            return replace(stored, dtype=DType.I8, data=stored.tiles.view(np.uint8), multipliers=None)

    engine = Engine.from_pack(Mixed(), context=64)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="some of the weights"):
        engine.prefill(TOKENS[:4])


def test_projections_of_other_widths_stay_in_8_bits_beside_those_in_4(tmp_path: Path) -> None:
    """Gate and up of 128 inputs have 4 bits, down of 80 has 8."""
    path = tmp_path / "m.orkpack"
    source = write_tiny_experts(tmp_path / "m.gguf", feed_forward=80)
    pack_gguf(source, path, scheme="nf4-mixed")
    with OrkPack.open(path) as pack, GgufFile.open(source) as model:
        kinds = {name: pack.packed(name).dtype for name in pack.packed_names}
        assert (
            kinds["blk.1.ffn_up_exps.weight#2"] == kinds["blk.1.ffn_gate_exps.weight#2"] == DType.I4_CODEBOOK
        )
        assert kinds["blk.1.ffn_down_exps.weight#2"] == DType.I8
        reference = ReferenceDecoder.from_gguf(model)
        reference._linears = PackedLinears(pack)
        wanted = reference.logits_of(TOKENS)
        got = Engine.from_pack(pack, context=128, cache_type="f32").logits_of(TOKENS)
    assert np.sqrt(np.mean(np.square(got - wanted))) < 0.02 * wanted.std()
