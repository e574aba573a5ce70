"""Models of state space layers in a session: what they hold cannot be cut back, only kept or told again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from orkbench_tui.errors import InvalidFileError, RefusedError, UnhealthyError
from orkbench_tui.runner.engine import Engine
from orkbench_tui.runner.generation import GenerationLimits, generate
from orkbench_tui.runner.gguf_file import GgufFile
from orkbench_tui.runner.gguf_weights import GgufWeights
from orkbench_tui.runner.models.read_architecture import architecture_of
from orkbench_tui.runner.orkpack.reader import OrkPack
from orkbench_tui.runner.prompt_cache import binding_of, common_prefix, load_prompt, save_prompt
from orkbench_tui.runner.quantize.pack_model import pack_gguf
from orkbench_tui.runner.sampler import Sampler, Sampling
from orkbench_tui.runner.tokenizer import Tokenizer
from tests.reference.tiny_families import TINY_FAMILIES, family_weights, write_tiny_family
from tests.reference.tiny_models import VOCABULARY, write_tiny_llama
from tests.runner.exact_npu import ExactNpu

TOKENS = np.random.default_rng(6).integers(0, VOCABULARY, 300).tolist()


@pytest.fixture(scope="module", params=["mamba2", "granitehybrid"])
def source(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    return write_tiny_family(tmp_path_factory.mktemp("scan") / "m.gguf", request.param)


@pytest.fixture(scope="module")
def pack(source: Path) -> Iterator[OrkPack]:
    path = source.with_suffix(".orkpack")
    pack_gguf(source, path)
    with OrkPack.open(path) as opened:
        yield opened


def logits_after(pack: OrkPack, tokens: list[int]) -> bytes:
    return Engine.from_pack(pack).prefill(tokens).tobytes()


def test_prompts_give_the_bits_of_single_tokens_in_any_cut(pack: OrkPack) -> None:
    whole = logits_after(pack, TOKENS)
    engine = Engine.from_pack(pack)
    for first, last in ((0, 1), (1, 90), (90, 299)):
        engine.prefill(TOKENS[first:last])
    assert engine.decode(TOKENS[299]).tobytes() == whole


@pytest.mark.parametrize("count", [64, 151, 300])
def test_overlapped_micro_batches_hand_their_states_on(pack: OrkPack, count: int) -> None:
    engine = Engine.from_pack(pack, ExactNpu(), overlap="on")
    assert engine.prefill(TOKENS[:count]).tobytes() == logits_after(pack, TOKENS[:count])
    assert engine.stats.overlap is not None and engine.stats.overlap.overlapped_prompts == 1
    assert engine.decode(3).tobytes() == logits_after(pack, [*TOKENS[:count], 3])


def test_going_back_forgets_everything_and_staying_nothing(pack: OrkPack) -> None:
    engine = Engine.from_pack(pack)
    engine.prefill(TOKENS[:50])
    engine.rewind(50)
    assert engine.position == 50
    assert engine.decode(9).tobytes() == logits_after(pack, [*TOKENS[:50], 9])
    for elsewhere in (52, -1):
        with pytest.raises(ValueError, match="cannot go back"):
            engine.rewind(elsewhere)
    assert engine.position == 51, "a refusal forgets nothing"
    engine.rewind(40)
    assert engine.position == 0
    assert engine.prefill(TOKENS[:41]).tobytes() == logits_after(pack, TOKENS[:41])


def test_a_prompt_that_stopped_between_micro_batches_goes_on(pack: OrkPack) -> None:
    for overlap in ("off", "on"):
        engine = Engine.from_pack(pack, ExactNpu(), overlap=overlap)  # type: ignore[arg-type]
        stopped = engine.prefill_until(TOKENS, lambda: True)
        assert stopped is None and 0 < engine.position < 300
        assert engine.prefill(TOKENS[engine.position :]).tobytes() == logits_after(pack, TOKENS)


def test_after_a_failure_the_session_begins_anew(pack: OrkPack) -> None:
    npu, runs = ExactNpu(), iter(range(100))
    engine = Engine.from_pack(pack, npu)
    engine.prefill(TOKENS[:40])

    def fail() -> None:
        if next(runs) == 3:
            raise UnhealthyError("the NPU is gone")

    npu.before_run = fail
    with pytest.raises(UnhealthyError):
        engine.prefill(TOKENS[40:180])
    assert engine.position == 0, "some layers had moved on"
    npu.before_run = None
    assert engine.prefill(TOKENS[:180]).tobytes() == logits_after(pack, TOKENS[:180])


def test_sessions_over_one_model_have_states_of_their_own(pack: OrkPack) -> None:
    one, other = Engine.from_pack(pack), Engine.from_pack(pack)
    one.prefill(TOKENS[:30])
    other.prefill(TOKENS[100:140])
    assert one.decode(5).tobytes() == logits_after(pack, [*TOKENS[:30], 5])
    assert other.decode(5).tobytes() == logits_after(pack, [*TOKENS[100:140], 5])


def test_a_saved_prompt_goes_on_whole_or_not_at_all(pack: OrkPack, tmp_path: Path) -> None:
    engine = Engine.from_pack(pack)
    engine.prefill(TOKENS[:60])
    save_prompt(tmp_path / "p", engine, TOKENS[:60], binding_of(engine, "ab" * 32, "w8a8-rot"))
    later = Engine.from_pack(pack)
    binding = binding_of(later, "ab" * 32, "w8a8-rot")
    assert load_prompt(tmp_path / "p", later, binding) == TOKENS[:60]
    assert later.decode(1).tobytes() == engine.decode(1).tobytes()
    small = Engine.from_pack(pack, context=32)
    assert load_prompt(tmp_path / "p", small, binding) == [] and small.position == 0
    assert small.prefill(TOKENS[:8]).tobytes() == logits_after(pack, TOKENS[:8])


def test_a_saved_prompt_that_only_begins_alike_is_told_again(pack: OrkPack, tmp_path: Path) -> None:
    engine = Engine.from_pack(pack)
    engine.prefill(TOKENS[:60])
    save_prompt(tmp_path / "p", engine, TOKENS[:60], binding_of(engine, "ab" * 32, "w8a8-rot"))
    for tokens, still in (([*TOKENS[:60], 4, 5], 60), ([*TOKENS[:30], 4, 5], 0), (TOKENS[:60], 0)):
        later = Engine.from_pack(pack)
        held = load_prompt(tmp_path / "p", later, binding_of(later, "ab" * 32, "w8a8-rot"))
        later.rewind(min(common_prefix(held, tokens), len(tokens) - 1))
        assert later.position == still
        assert later.prefill(tokens[later.position :]).tobytes() == logits_after(pack, tokens)


def test_a_shifted_context_is_computed_anew(source: Path, pack: OrkPack) -> None:
    with GgufFile.open(source) as model:
        tokenizer = Tokenizer.from_metadata(model.metadata)
    engine = Engine.from_pack(pack, context=48)
    answer = generate(
        engine,
        tokenizer,
        TOKENS[:20],
        Sampler(Sampling(temperature=0)),
        limits=GenerationLimits(max_tokens=80),
        on_text=lambda text: None,
        keep=8,
    )
    assert answer.shifts >= 1
    assert engine.position == len(answer.held) < 48
    assert engine.decode(3).tobytes() == logits_after(pack, [*answer.held, 3])


def test_logits_that_are_not_finite_name_the_layer(tmp_path: Path) -> None:
    path = write_tiny_family(tmp_path / "m.gguf", "mamba2")
    family = TINY_FAMILIES["mamba2"]
    assert family.scan is not None
    weights = family_weights(family)
    weights["blk.2.ssm_norm.weight"][0, 0] = np.nan
    metadata = {f"mamba2.{key}": value for key, value in family.scan.metadata.items()}
    write_tiny_llama(path, shape=family.shape, architecture="mamba2", metadata=metadata, weights=weights)
    with GgufFile.open(path) as model, pytest.raises(UnhealthyError, match="layer 2"):
        Engine.from_floats(GgufWeights(model)).prefill(TOKENS[:5])


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"ssm__group_count": 4}, "ssm.group_count is 4, which does not divide 6 heads"),
        ({"ssm__group_count": 0}, "ssm.group_count is 0, allowed are 1..6"),
        ({"ssm__time_step_rank": 7}, "ssm.inner_size is 96, which 7 heads do not divide"),
        (
            {"ssm__time_step_rank": 24},
            "ssm.inner_size is 96, 4 for each of 24 heads; allowed are multiples of 8",
        ),
        ({"ssm__conv_kernel": 9}, "ssm.conv_kernel is 9, allowed are 1..8"),
        ({"ssm__state_size": 32}, "tensor blk.0.ssm_in.weight has the shape"),
    ],
)
def test_numbers_that_do_not_fit_are_refused_by_name(
    tmp_path: Path, changes: dict[str, int], why: str
) -> None:
    path = write_tiny_family(tmp_path / "m.gguf", "mamba2", **changes)
    with GgufFile.open(path) as model, pytest.raises(InvalidFileError) as refusal:
        architecture_of(model)
    assert why in str(refusal.value)


def test_a_hybrid_has_keys_where_it_attends_and_states_where_it_scans(tmp_path: Path) -> None:
    path = write_tiny_family(tmp_path / "m.gguf", "granitehybrid")
    with GgufFile.open(path) as model:
        engine = Engine.from_floats(GgufWeights(model))
        engine.prefill(TOKENS[:10])
    a = engine.architecture
    assert (a.attending, a.scanning) == ((1, 4), {0, 2, 3})
    assert len(engine.held()) == 2 * 2 + 3 * 5


@pytest.mark.parametrize(
    ("heads", "why"),
    [
        ([0] * 5, "attention.head_count_kv is 0 for every layer"),
        ([0, 2, 0, 0], "attention.head_count_kv has 4 values for 5 layers"),
        ([0, 2, 0, 0, 1], r"differs between layers \(\[1, 2\]\)"),
        ([2, 2, 0, 0, 2], r"tensor blk\.0\.attn_q\.weight is missing"),
        ([0, 0, 0, 0, 2], r"tensor blk\.1\.ssm_in\.weight is missing"),
        (2, "is missing"),
    ],
)
def test_kinds_of_layers_that_do_not_fit_the_tensors_are_refused(
    tmp_path: Path, heads: list[int] | int, why: str
) -> None:
    path = write_tiny_family(tmp_path / "m.gguf", "granitehybrid", attention__head_count_kv=heads)
    with GgufFile.open(path) as model, pytest.raises(InvalidFileError, match=why):
        architecture_of(model)


def test_a_missing_tensor_is_named(tmp_path: Path) -> None:
    family = TINY_FAMILIES["mamba2"]
    assert family.scan is not None
    weights = family_weights(family)
    del weights["blk.1.ssm_d"]
    metadata = {f"mamba2.{key}": value for key, value in family.scan.metadata.items()}
    path = write_tiny_llama(
        tmp_path / "m.gguf", shape=family.shape, architecture="mamba2", metadata=metadata, weights=weights
    )
    with (
        GgufFile.open(path) as model,
        pytest.raises(InvalidFileError, match=r"tensor blk\.1\.ssm_d is missing"),
    ):
        architecture_of(model)


def test_there_are_no_experts_to_choose(pack: OrkPack) -> None:
    with pytest.raises(RefusedError):
        Engine.from_pack(pack).expert_choices(TOKENS[:4])
