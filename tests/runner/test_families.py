"""Every family: float logits of a plain numpy pass, int8 logits of the scheme in numpy, the same bits on the NPU."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from orkbench_tui.driver.npu import Npu
from orkbench_tui.errors import InvalidFileError
from orkbench_tui.runner.engine import Engine
from orkbench_tui.runner.gguf_file import GgufFile
from orkbench_tui.runner.gguf_weights import GgufWeights
from orkbench_tui.runner.models.architecture import Architecture
from orkbench_tui.runner.models.families import FAMILIES
from orkbench_tui.runner.models.read_architecture import architecture_of
from orkbench_tui.runner.orkpack.reader import OrkPack
from orkbench_tui.runner.quantize.pack_model import pack_bytes, pack_gguf
from orkbench_tui.sim.inprocess import InProcessBoard
from tests.reference.decoder import ReferenceDecoder
from tests.reference.tiny_families import TINY_FAMILIES, write_tiny_family
from tests.reference.tiny_models import VOCABULARY
from tests.runner.exact_npu import ExactNpu

TOKENS = np.random.default_rng(8).integers(0, VOCABULARY, 90).tolist()
EVERY = sorted(TINY_FAMILIES)


def rms(difference: np.ndarray) -> float:
    return float(np.sqrt(np.mean(np.square(difference, dtype=np.float64))))


def test_every_known_family_is_tested() -> None:
    assert {family.architecture for family in TINY_FAMILIES.values()} == set(FAMILIES)


@pytest.mark.parametrize("name", EVERY)
def test_float_logits_are_those_of_the_reference(tmp_path: Path, name: str) -> None:
    with GgufFile.open(write_tiny_family(tmp_path / "m.gguf", name, seed=1)) as model:
        expected = ReferenceDecoder.from_gguf(model).logits_of(TOKENS)
        engine = Engine.from_floats(GgufWeights(model))
        got = np.concatenate([engine.logits_of(TOKENS[:70]), *(engine.decode(t)[None] for t in TOKENS[70:])])
    assert expected.std() > 1.0
    assert rms(got - expected) < 1e-4
    assert np.abs(got - expected).max() < 2e-3


@pytest.mark.parametrize("name", EVERY)
def test_int8_logits_are_those_of_the_scheme_on_every_path(tmp_path: Path, name: str) -> None:
    source = write_tiny_family(tmp_path / "m.gguf", name, seed=2)
    pack_gguf(source, tmp_path / "m.orkpack")
    assert (tmp_path / "m.orkpack").stat().st_size <= pack_bytes(source)
    with GgufFile.open(source) as model:
        scheme = ReferenceDecoder.from_gguf(model, quant="w8a8-rot").logits_of(TOKENS)
        exact = ReferenceDecoder.from_gguf(model).logits_of(TOKENS)
        own = architecture_of(model)
    with OrkPack.open(tmp_path / "m.orkpack") as pack:
        assert pack.architecture == own
        got = Engine.from_pack(pack, cache_type="f32").logits_of(TOKENS)
        one_by_one = Engine.from_pack(pack, cache_type="f32")
        alone = np.stack([one_by_one.decode(token) for token in TOKENS])
        on_npu = Engine.from_pack(pack, ExactNpu(), cache_type="f32").logits_of(TOKENS)
    # A float that differs in its last bit may round to another code, which then spreads.
    assert np.median(np.abs(got - scheme)) < 0.25 * rms(exact - scheme)
    assert rms(got - scheme) < 0.6 * rms(exact - scheme)
    assert rms(exact - scheme) < 0.3 * exact.std()
    assert alone.tobytes() == got.tobytes()
    assert on_npu.tobytes() == got.tobytes()


@pytest.mark.parametrize("name", ["qwen2", "gemma3", "qwen3moe"])
def test_the_simulated_chip_gives_the_same_bits(tmp_path: Path, name: str) -> None:
    pack_gguf(write_tiny_family(tmp_path / "m.gguf", name), tmp_path / "m.orkpack")
    board = InProcessBoard()
    with Npu(board.device()) as npu, OrkPack.open(tmp_path / "m.orkpack") as pack:
        on_npu, on_cpu = Engine.from_pack(pack, npu), Engine.from_pack(pack)
        assert on_npu.prefill(TOKENS[:33]).tobytes() == on_cpu.prefill(TOKENS[:33]).tobytes()
        used = on_npu.stats.npu
        assert used is not None and used.submits > 0
    board.close()


def _refusal(path: Path, name: str, **changes: object) -> str:
    with (
        GgufFile.open(write_tiny_family(path, name, **changes)) as model,
        pytest.raises(InvalidFileError) as e,
    ):
        architecture_of(model)
    return str(e.value)


def test_windows_are_read_as_number_or_as_flags(tmp_path: Path) -> None:
    def windows(**changes: object) -> tuple[int, ...]:
        with GgufFile.open(write_tiny_family(tmp_path / "m.gguf", "gemma3", **changes)) as model:
            return architecture_of(model).windows

    assert windows() == (16, 16, 16, 16, 16, 0, 16)
    assert windows(attention__sliding_window_pattern=3) == (16, 16, 0, 16, 16, 0, 16)
    assert windows(attention__sliding_window_pattern=1) == (0,) * 7
    flags = [True, False, True, True, False, False, True]
    assert windows(attention__sliding_window_pattern=flags) == tuple(16 * flag for flag in flags)
    assert "nor a flag for each of 7" in _refusal(
        tmp_path / "m.gguf", "gemma3", attention__sliding_window_pattern=[True]
    )


def test_local_layers_turn_by_their_own_base_and_are_not_stretched(tmp_path: Path) -> None:
    with GgufFile.open(write_tiny_family(tmp_path / "m.gguf", "gemma3")) as model:
        a = architecture_of(model)
    assert (a.rope_of(5).base, a.rope_of(5).stretch) == (1e6, 8.0)
    assert (a.rope_of(0).base, a.rope_of(0).stretch) == (10000.0, 1.0)


def test_what_a_family_does_not_compute_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    assert "qwen3.attention.sliding_window is 64" in _refusal(path, "qwen3", attention__sliding_window=64)
    assert "qwen2.final_logit_softcapping" in _refusal(path, "qwen2", final_logit_softcapping=30.0)
    assert "scaled by 'yarn'" in _refusal(
        path, "qwen2", rope__scaling__type="yarn", rope__scaling__factor=4.0
    )
    for key in ("embedding_scale", "residual_scale", "logit_scale"):
        assert f"qwen3.{key} is 0.5" in _refusal(path, "qwen3", **{key: 0.5})
        assert f"granite.{key} is -1" in _refusal(path, "granite", **{key: -1.0})
    assert "granite.expert_count is 8" in _refusal(path, "granite", expert_count=8)
    assert "attn_logit_softcapping is -1" in _refusal(path, "gemma2", attn_logit_softcapping=-1.0)


def test_layers_without_rotation_and_scales_are_read(tmp_path: Path) -> None:
    def read(name: str, **changes: object) -> Architecture:
        with GgufFile.open(write_tiny_family(tmp_path / "m.gguf", name, **changes)) as model:
            return architecture_of(model)

    assert read("smollm3").unrotated == {3}
    assert read("granite").unrotated == read("granite", rope__scaling__finetuned=True).unrotated == set()
    assert read("granite without rotation").unrotated == {0, 1, 2}
    a = read("granite")
    assert (a.embedding_scale, a.residual_scale, a.logit_scale) == pytest.approx((1.5, 0.4, 2.0))
    assert read("granite", logit_scale=0.0).logit_scale == 1.0


def test_query_scale_is_by_head_size_or_as_the_file_says(tmp_path: Path) -> None:
    with GgufFile.open(write_tiny_family(tmp_path / "m.gguf", "qwen3")) as model:
        assert architecture_of(model).attention_scale == pytest.approx(40**-0.5)
    with GgufFile.open(write_tiny_family(tmp_path / "m.gguf", "qwen3", attention__scale=0.25)) as model:
        assert architecture_of(model).attention_scale == 0.25
