"""Single tokens that attend on the NPU: near what the processor gives, always over what the session's cache holds."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from orkbench_tui.driver.attention_limits import LEAST_KEYS
from orkbench_tui.driver.npu import Npu
from orkbench_tui.errors import UnhealthyError
from orkbench_tui.runner.dispatch.dispatcher import Dispatcher, parse_overrides
from orkbench_tui.runner.dispatch.model import ModelDispatch
from orkbench_tui.runner.engine import Engine
from orkbench_tui.runner.kv_cache import CacheType
from orkbench_tui.runner.orkpack.reader import OrkPack
from orkbench_tui.runner.prompt_cache import binding_of, load_prompt, save_prompt
from orkbench_tui.runner.quantize.pack_model import pack_gguf
from orkbench_tui.sim.inprocess import InProcessBoard
from tests.reference.tiny_families import TINY_FAMILIES, write_tiny_family
from tests.reference.tiny_models import VOCABULARY, TinyShape, write_tiny_llama

LAYERS, HEADS = 2, 4
TOKENS = np.random.default_rng(3).integers(0, VOCABULARY, 420).tolist()


@pytest.fixture(scope="module")
def pack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OrkPack]:
    path = tmp_path_factory.mktemp("attention") / "m.orkpack"
    pack_gguf(write_tiny_llama(path.with_suffix(".gguf"), shape=TinyShape(layers=LAYERS)), path)
    with OrkPack.open(path) as opened:
        yield opened


@pytest.fixture
def npu() -> Iterator[Npu]:
    with closing(InProcessBoard()) as board, Npu(board.device()) as npu:
        yield npu


def engine(pack: OrkPack, npu: Npu, settings: str = "attention=npu", cache: CacheType = "f16") -> Engine:
    dispatch = ModelDispatch(Dispatcher(parse_overrides(settings)), pack.architecture)
    return Engine.from_pack(pack, npu, dispatch=dispatch, cache_type=cache)


def off(found: np.ndarray, exact: np.ndarray) -> float:
    return float(np.sqrt(np.mean((found - exact) ** 2)) / exact.std())


def decoded(session: Engine, tokens: list[int]) -> np.ndarray:
    return np.stack([session.decode(token) for token in tokens])


@pytest.mark.parametrize("cache", ["f16", "f32", "int8"])
def test_enough_keys_attend_there_and_fewer_here(pack: OrkPack, npu: Npu, cache: CacheType) -> None:
    there, here = engine(pack, npu, cache=cache), engine(pack, npu, "", cache)
    for session in (there, here):
        session.prefill(TOKENS[: LEAST_KEYS - 11])
    assert decoded(there, TOKENS[300:310]).tobytes() == decoded(here, TOKENS[300:310]).tobytes()
    before = npu.counters.submits
    for token in TOKENS[310:316]:
        found, submits = there.decode(token), npu.counters.submits
        assert submits - before == LAYERS * HEADS * 2
        assert 0 < off(found, here.decode(token)) < 0.1
        before = npu.counters.submits


def test_what_was_told_does_not_outlive_the_cache(pack: OrkPack, npu: Npu) -> None:
    session, fresh = engine(pack, npu), engine(pack, npu)
    session.prefill(TOKENS[:300])
    decoded(session, TOKENS[300:310])
    session.rewind(290)
    fresh.prefill(TOKENS[:290])
    for one in (session, fresh):
        one.prefill(TOKENS[350:370])
    assert decoded(session, TOKENS[:8]).tobytes() == decoded(fresh, TOKENS[:8]).tobytes()


def test_larger_values_make_the_codes_anew(pack: OrkPack, npu: Npu, monkeypatch: pytest.MonkeyPatch) -> None:
    session = engine(pack, npu)
    session.prefill(TOKENS[:300])
    session.decode(1)
    made = npu.attention
    names: list[str] = []
    monkeypatch.setattr(npu, "attention", lambda *a, **k: (names.append(k["name"]), made(*a, **k))[1])
    session.decode(2)
    assert not names
    session.prefill(TOKENS[300:310])
    session._model.cache.layers[1].values[0, 305] *= 8
    session.decode(1)
    assert names == ["attention 1.0"]


def test_a_saved_prompt_is_told_again(pack: OrkPack, npu: Npu, tmp_path: Path) -> None:
    session = engine(pack, npu)
    session.prefill(TOKENS[:300])
    decoded(session, TOKENS[300:303])
    save_prompt(tmp_path / "p", session, TOKENS[:303], binding_of(session, "ab" * 32, "w8a8-rot"))
    later = engine(pack, npu)
    later.prefill(TOKENS[100:400])
    later.decode(5)
    later.rewind(0)
    load_prompt(tmp_path / "p", later, binding_of(later, "ab" * 32, "w8a8-rot"))
    assert later.decode(9).tobytes() == session.decode(9).tobytes()


def test_sessions_attend_to_their_own(pack: OrkPack, npu: Npu) -> None:
    one = engine(pack, npu)
    other = one.another()
    one.prefill(TOKENS[:290])
    other.prefill(TOKENS[100:400])
    expected = engine(pack, npu)
    expected.prefill(TOKENS[:290])
    for token in (4, 5, 6):
        other.decode(token)
        assert one.decode(token).tobytes() == expected.decode(token).tobytes()


def test_a_prompt_is_the_processor_s(pack: OrkPack, npu: Npu) -> None:
    there, here = engine(pack, npu), engine(pack, npu, "")
    assert there.prefill(TOKENS[:400]).tobytes() == here.prefill(TOKENS[:400]).tobytes()


def test_keys_that_are_not_finite_show(pack: OrkPack, npu: Npu) -> None:
    session = engine(pack, npu)
    session.prefill(TOKENS[:300])
    session._model.cache.layers[1].values[0, 7] = np.nan
    with pytest.raises(UnhealthyError, match="layer 1: attention"):
        session.decode(1)
    assert session.position == 300


def test_models_that_cannot_attend_there_stay_here(tmp_path: Path, npu: Npu) -> None:
    for name in ("gemma2", "qwen3", "mamba2"):
        path = tmp_path / f"{name}.orkpack"
        pack_gguf(write_tiny_family(tmp_path / "m.gguf", name), path)
        with OrkPack.open(path) as opened:
            there, here = engine(opened, npu), engine(opened, npu, "")
            for session in (there, here):
                session.prefill(TOKENS[:280])
            assert there.decode(3).tobytes() == here.decode(3).tobytes()


def test_within_its_window_a_layer_attends_there_and_beyond_here(
    tmp_path: Path, npu: Npu, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of seven layers the sixth has none; its other six see 270 tokens."""
    path = tmp_path / "m.orkpack"
    monkeypatch.setitem(TINY_FAMILIES, "gemma3", replace(TINY_FAMILIES["gemma3"], head_size=32))
    source = write_tiny_family(
        tmp_path / "m.gguf", "gemma3", attention__sliding_window=270, context_length=512
    )
    pack_gguf(source, path)
    with OrkPack.open(path) as opened:
        session = engine(opened, npu)
        session.prefill(TOKENS[:269])
        counts = []
        for token in TOKENS[:4]:
            before = npu.counters.submits
            session.decode(token)
            counts.append(npu.counters.submits - before)
    assert counts == [7 * 4 * 2, 4 * 2, 4 * 2, 4 * 2]
