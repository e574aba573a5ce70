"""The engine: right logits in every mode, the same bits whichever way tokens come and whoever multiplies."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from orkbench_tui import host_memory
from orkbench_tui.errors import NoMemoryError, RefusedError, UnhealthyError, UsageError
from orkbench_tui.native.library import portable_kernels
from orkbench_tui.runner.engine import ROWS_PER_CHUNK, Engine
from orkbench_tui.runner.gguf_file import GgufFile
from orkbench_tui.runner.gguf_weights import GgufWeights
from orkbench_tui.runner.kv_cache import CacheType, KvCache
from orkbench_tui.runner.models.architecture import Architecture
from orkbench_tui.runner.orkpack.reader import OrkPack
from orkbench_tui.runner.orkpack.schemes import SCHEMES
from orkbench_tui.runner.quantize.pack_model import pack_gguf
from tests.reference.decoder import ReferenceDecoder
from tests.reference.tiny_models import VOCABULARY, TinyShape, write_tiny_llama
from tests.runner.exact_npu import ExactNpu

INT8 = [name for name, scheme in SCHEMES.items() if scheme.four_bit is None]

TOKENS = np.random.default_rng(4).integers(0, VOCABULARY, 300).tolist()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("engine")
    source = write_tiny_llama(path / "tiny.gguf")
    for scheme in INT8:
        pack_gguf(source, path / f"{scheme}.orkpack", scheme=scheme)
    return path


@pytest.fixture(scope="module")
def model(folder: Path) -> Iterator[GgufFile]:
    with GgufFile.open(folder / "tiny.gguf") as opened:
        yield opened


@pytest.fixture(scope="module", params=INT8)
def pack(folder: Path, request: pytest.FixtureRequest) -> Iterator[OrkPack]:
    with OrkPack.open(folder / f"{request.param}.orkpack") as opened:
        yield opened


def rms(difference: np.ndarray) -> float:
    return float(np.sqrt(np.mean(np.square(difference, dtype=np.float64))))


def assert_same_floats(got: np.ndarray, expected: np.ndarray) -> None:
    """Equal up to float32 rounding.

    Against a double precision pass over the tiny model (logits of standard deviation 5.8, 300 tokens), both
    the engine and the numpy reference are off by 1.6e-5 rms and 1.3e-4 at most.
    """
    assert rms(got - expected) < 5e-5
    assert np.abs(got - expected).max() < 1e-4 * max(5.0, np.abs(expected).max())


class Altered:
    """A model's tensors with another architecture or other weights."""

    def __init__(self, inner: GgufWeights | OrkPack, architecture: Architecture | None = None) -> None:
        self._inner = inner
        self.architecture = architecture or inner.architecture
        self.scheme = "altered"
        self.domain_of: dict[str, int] = {}
        self.replaced: dict[str, np.ndarray] = {}

    def raw(self, name: str) -> np.ndarray:
        return self.replaced[name] if name in self.replaced else self._inner.raw(name)

    def raw_rows(self, name: str, ids: list[int]) -> np.ndarray:
        return self._inner.raw_rows(name, ids)

    def packed(self, name: str):  # type: ignore[no-untyped-def]
        assert isinstance(self._inner, OrkPack)
        return self._inner.packed(name)


@pytest.mark.parametrize("pairing", ["norm", "neox"])
def test_float_logits_are_those_of_the_reference(model: GgufFile, pairing: str) -> None:
    weights = GgufWeights(model)
    rope = dataclasses.replace(weights.architecture.rope, pairing=pairing)
    altered = Altered(weights, dataclasses.replace(weights.architecture, rope=rope))
    reference = ReferenceDecoder.from_gguf(model)
    reference.architecture = altered.architecture
    assert_same_floats(Engine.from_floats(altered).logits_of(TOKENS), reference.logits_of(TOKENS))


@pytest.mark.parametrize(
    "shape", [TinyShape(rope_factors=True, tied_head=False), TinyShape(heads=8, kv_heads=1)]
)
def test_float_logits_of_other_shapes(tmp_path: Path, shape: TinyShape) -> None:
    with GgufFile.open(write_tiny_llama(tmp_path / "other.gguf", shape=shape, seed=3)) as model:
        got = Engine.from_floats(GgufWeights(model)).logits_of(TOKENS[:90])
        assert_same_floats(got, ReferenceDecoder.from_gguf(model).logits_of(TOKENS[:90]))


def test_int8_logits_are_those_of_the_same_scheme_in_numpy(model: GgufFile, pack: OrkPack) -> None:
    expected = ReferenceDecoder.from_gguf(model, quant=pack.scheme).logits_of(TOKENS)
    exact = ReferenceDecoder.from_gguf(model).logits_of(TOKENS)
    got = Engine.from_pack(pack, cache_type="f32").logits_of(TOKENS)
    # A float that differs in the last bit may round to another code, which then spreads; the scheme's own
    # error is far larger.
    assert rms(got - expected) < 0.25 * rms(expected - exact)
    assert np.median(np.abs(got - expected)) < 0.1 * rms(expected - exact)


def test_half_precision_cache_changes_little(model: GgufFile) -> None:
    weights = GgufWeights(model)
    full = Engine.from_floats(weights).logits_of(TOKENS)
    half = Engine.from_floats(weights, cache_type="f16").logits_of(TOKENS)
    assert 0 < rms(half - full) < 3e-3 * rms(full)


def test_an_int8_cache_changes_little_and_takes_half_of_half_precision(model: GgufFile) -> None:
    weights = GgufWeights(model)
    full, coded = Engine.from_floats(weights), Engine.from_floats(weights, cache_type="int8")
    half = Engine.from_floats(weights, cache_type="f16")
    expected, got = full.logits_of(TOKENS), coded.logits_of(TOKENS)
    half.logits_of(TOKENS)
    assert 0 < rms(got - expected) < 0.05 * rms(expected)
    # Codes are half of a half; each head's key and value has a scale of four bytes beside.
    dim = weights.architecture.head_dim
    taken = [sum(array.nbytes for array in engine.held()) for engine in (coded, half)]
    assert taken[0] <= taken[1] * (dim + 4) / (2 * dim) * 1.1
    coded.rewind(0)
    parts = [coded.logits_of(TOKENS[:40]), *(coded.decode(token)[None] for token in TOKENS[40:])]
    again = Engine.from_floats(weights, cache_type="int8")
    one_by_one = np.stack([again.decode(token) for token in TOKENS[:60]])
    # numpy's product of one row is not that of many to the last bit.
    assert rms(np.concatenate(parts)[:60] - one_by_one) < 2e-2 * rms(expected)


def test_all_ways_to_feed_tokens_give_the_same_bits_with_an_int8_cache(pack: OrkPack) -> None:
    engine = Engine.from_pack(pack, cache_type="int8")
    every = engine.logits_of(TOKENS[:70])
    engine.rewind(30)
    assert engine.logits_of(TOKENS[30:70]).tobytes() == every[30:].tobytes()
    engine.rewind(0)
    assert np.stack([engine.decode(token) for token in TOKENS[:70]]).tobytes() == every.tobytes()


def test_all_ways_to_feed_tokens_give_the_same_bits(pack: OrkPack) -> None:
    engine = Engine.from_pack(pack)
    every = engine.logits_of(TOKENS)
    assert engine.position == len(TOKENS)

    engine.rewind(0)
    assert engine.prefill(TOKENS).tobytes() == every[-1].tobytes()

    engine.rewind(0)
    for first, end in ((0, 1), (1, 60), (60, 62), (62, 270)):
        assert engine.prefill(TOKENS[first:end]).tobytes() == every[end - 1].tobytes()
    for index in range(270, 300):
        assert engine.decode(TOKENS[index]).tobytes() == every[index].tobytes()


@pytest.mark.parametrize("hide_tiles", [False, True])
def test_the_npu_changes_no_bit(pack: OrkPack, hide_tiles: bool) -> None:
    npu = ExactNpu(hide_tiles=hide_tiles)
    with_npu, without = Engine.from_pack(pack, npu), Engine.from_pack(pack)
    assert with_npu.logits_of(TOKENS).tobytes() == without.logits_of(TOKENS).tobytes()
    for engine in (with_npu, without):
        engine.rewind(100)
    assert with_npu.prefill(TOKENS[:7]).tobytes() == without.prefill(TOKENS[:7]).tobytes()
    assert with_npu.decode(5).tobytes() == without.decode(5).tobytes()


def test_what_runs_on_the_npu(pack: OrkPack) -> None:
    npu = ExactNpu()
    engine = Engine.from_pack(pack, npu)
    assert "output.weight" not in npu.loaded and len(npu.loaded) == 7 * pack.architecture.layers
    engine.decode(1)
    engine.prefill([2])
    assert not npu.compiled and engine.stats.npu is not None and engine.stats.npu.submits == 0

    engine.prefill(TOKENS[:20])
    per_layer = [{"attn_q", "attn_k", "attn_v"}, {"attn_output"}, {"ffn_gate", "ffn_up"}, {"ffn_down"}]
    groups = [{name.split(".")[2] for name in names} for names, _ in npu.compiled]
    assert groups == per_layer * pack.architecture.layers
    assert {rows for _, rows in npu.compiled} == {32}
    used = engine.stats.npu
    assert (used.submits, used.tasks) == (3 * len(npu.compiled), 7 * len(npu.compiled))

    engine.prefill(TOKENS[:25])
    assert len(npu.compiled) == len(groups), "programs for these rows exist already"


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_threads_and_instruction_set_change_no_bit(pack: OrkPack, threads: int) -> None:
    expected = Engine.from_pack(pack, threads=1).logits_of(TOKENS[:70])
    assert Engine.from_pack(pack, threads=threads).logits_of(TOKENS[:70]).tobytes() == expected.tobytes()
    with portable_kernels():
        portable = Engine.from_pack(pack, threads=threads).logits_of(TOKENS[:70])
    assert portable.tobytes() == expected.tobytes()


def test_rewind_leaves_no_trace(pack: OrkPack) -> None:
    engine = Engine.from_pack(pack)
    first = engine.prefill(TOKENS[:50])
    engine.decode(3)
    engine.rewind(20)
    assert engine.position == 20
    engine.prefill(list(reversed(TOKENS[:100])))
    engine.rewind(20)
    assert engine.prefill(TOKENS[20:50]).tobytes() == first.tobytes()
    for position in (-1, 51):
        with pytest.raises(ValueError, match="cannot go back"):
            engine.rewind(position)


@pytest.mark.parametrize("with_npu", [False, True])
def test_sessions_over_one_model_do_not_see_each_other(pack: OrkPack, with_npu: bool) -> None:
    npu = ExactNpu() if with_npu else None
    alone = Engine.from_pack(pack)
    first = Engine.from_pack(pack, npu)
    second = first.another(context=100)
    loaded = [] if npu is None else list(npu.loaded)
    expected = [alone.prefill(TOKENS[:40]).tobytes(), alone.decode(3).tobytes()]
    got = first.prefill(TOKENS[:40]).tobytes()
    second.prefill(TOKENS[60:90])
    second.decode(9)
    assert [got, first.decode(3).tobytes()] == expected
    assert (first.position, second.position, second.context) == (41, 31, 100)
    alone.rewind(0)
    alone.prefill(TOKENS[60:90])
    alone.decode(9)
    assert second.decode(4).tobytes() == alone.decode(4).tobytes()
    assert npu is None or npu.loaded == loaded, "the weights are there once"
    if npu is not None:
        compiled = len(npu.compiled)
        first.another().prefill(TOKENS[:40])
        assert len(npu.compiled) == compiled, "compiled matmuls are shared"
        assert first.stats.overlap is not None and first.stats.overlap == second.stats.overlap


@pytest.mark.parametrize("kind", ["f16", "f32", "int8"])
def test_a_context_that_memory_cannot_hold_is_refused_before_anything_is_taken(
    pack: OrkPack, kind: CacheType, monkeypatch: pytest.MonkeyPatch
) -> None:
    a = pack.architecture
    needed = KvCache.bytes_for(a.layers, a.kv_heads, a.head_dim, 100, kind)
    arrays = KvCache(a.attending, a.kv_heads, a.head_dim, 100, kind).filled(128)
    assert needed == sum(array.nbytes for array in arrays)
    monkeypatch.setattr(host_memory, "available_bytes", lambda: needed - 1)
    with pytest.raises(NoMemoryError, match="100 tokens") as caught:
        Engine.from_pack(pack, context=100, cache_type=kind)
    assert "--context" in caught.value.do
    monkeypatch.setattr(host_memory, "available_bytes", lambda: needed)
    assert Engine.from_pack(pack, context=100, cache_type=kind).context == 100


def test_logits_stay_what_they_were(pack: OrkPack) -> None:
    engine = Engine.from_pack(pack)
    first = engine.prefill(TOKENS[:5])
    second = engine.decode(9)
    copies = first.copy(), second.copy()
    engine.decode(10)
    assert np.array_equal(first, copies[0]) and np.array_equal(second, copies[1])


def test_context_can_be_filled_and_not_passed(pack: OrkPack) -> None:
    engine = Engine.from_pack(pack, context=40)
    with pytest.raises(UsageError, match="41 more tokens do not fit"):
        engine.prefill(TOKENS[:41])
    engine.prefill(TOKENS[:39])
    engine.decode(1)
    with pytest.raises(UsageError, match="0 of its 40 are free"):
        engine.decode(1)
    assert engine.position == 40


@pytest.mark.parametrize("tokens", [[], [VOCABULARY], [3, -1]])
def test_tokens_that_are_none(pack: OrkPack, tokens: list[int]) -> None:
    engine = Engine.from_pack(pack)
    with pytest.raises(UsageError):
        engine.prefill(tokens)
    assert engine.position == 0


@pytest.mark.parametrize("context", [0, -5, 513])
def test_a_context_the_model_does_not_have(pack: OrkPack, context: int) -> None:
    with pytest.raises(UsageError, match="1 to 512"):
        Engine.from_pack(pack, context=context)


def test_heads_the_kernels_do_not_compute_are_refused(model: GgufFile) -> None:
    weights = GgufWeights(model)
    odd = Altered(weights, dataclasses.replace(weights.architecture, head_dim=36))
    with pytest.raises(RefusedError, match="36 values"):
        Engine.from_floats(odd)


@pytest.mark.parametrize("count", [1, 30])
def test_an_overflow_is_an_error_that_names_where_it_began(pack: OrkPack, count: int) -> None:
    altered = Altered(pack)
    altered.replaced["blk.1.ffn_norm.weight"] = np.full(128, np.inf, np.float32)
    engine = Engine.from_pack(altered)
    with pytest.raises(UnhealthyError, match="not numbers") as caught:
        engine.prefill(TOKENS[:count]) if count > 1 else engine.decode(1)
    assert caught.value.why == "the first that is none is at token 0, layer 1: norm by blk.1.ffn_norm.weight"
    assert engine.position == 0


@pytest.mark.filterwarnings("error")
def test_an_overflow_of_floats_is_one_error_and_no_warning(model: GgufFile) -> None:
    altered = Altered(GgufWeights(model))
    altered.replaced["blk.1.ffn_norm.weight"] = np.full(128, 3e38, np.float32)
    with pytest.raises(UnhealthyError, match="not numbers"):
        Engine.from_floats(altered).prefill(TOKENS[:4])


@pytest.mark.parametrize(
    ("name", "element", "place"),
    [
        ("output_norm.weight", 5, "token 9, the head: norm by output_norm.weight"),
        ("blk.0.attn_norm.weight", 3, "token 9, layer 0: norm by blk.0.attn_norm.weight"),
    ],
)
def test_trouble_after_the_first_call_is_named_by_its_token(
    model: GgufFile, name: str, element: int, place: str
) -> None:
    altered = Altered(GgufWeights(model))
    engine = Engine.from_floats(altered)
    engine.prefill(TOKENS[:9])
    weight = altered.raw(name).copy()
    weight[element] = np.nan
    altered.replaced[name] = weight
    fresh = Engine.from_floats(altered)
    fresh.restore(9, engine.held())
    with pytest.raises(UnhealthyError) as caught:
        fresh.prefill(TOKENS[9:80])
    assert place in caught.value.why
    assert fresh.position == 9


def test_an_embedding_that_is_no_number_is_named(model: GgufFile) -> None:
    class Odd(Altered):
        def raw_rows(self, name: str, ids: list[int]) -> np.ndarray:
            rows = super().raw_rows(name, ids).copy()
            rows[np.asarray(ids) == 77] = np.nan
            return rows

    engine = Engine.from_floats(Odd(GgufWeights(model)))
    with pytest.raises(UnhealthyError) as caught:
        engine.logits_of([4, 9, 77, 5])
    assert "token 2, its embedding" in caught.value.why


def test_trouble_that_does_not_come_again_is_said_to_be_that(pack: OrkPack) -> None:
    class Once(Altered):
        calls = 0

        def raw_rows(self, name: str, ids: list[int]) -> np.ndarray:
            self.calls += 1
            return super().raw_rows(name, ids) * np.float32(np.nan if self.calls == 1 else 1.0)

    with pytest.raises(UnhealthyError, match="did not come again"):
        Engine.from_pack(Once(pack), ExactNpu()).prefill(TOKENS[:20])


def test_stats_count_tokens_and_time(pack: OrkPack) -> None:
    engine = Engine.from_pack(pack)
    assert engine.stats.prompt_tokens == 0 and engine.stats.npu is None
    engine.prefill(TOKENS[: ROWS_PER_CHUNK + 9])
    engine.decode(1)
    engine.decode(2)
    stats = engine.stats
    assert (stats.prompt_tokens, stats.decoded_tokens) == (ROWS_PER_CHUNK + 9, 2)
    assert stats.prompt_s > 0 and stats.decode_s > 0
