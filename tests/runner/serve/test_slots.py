"""Several conversations over one loaded model: interleaved they get what each would get alone."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orkbench_tui.runner.chat import Answer, GenerationLimits
from orkbench_tui.runner.engine import Engine
from orkbench_tui.runner.orkpack.reader import OrkPack
from orkbench_tui.runner.quantize.pack_model import pack_gguf
from orkbench_tui.runner.sampler import Sampler, Sampling
from orkbench_tui.runner.serve.slots import Slots
from orkbench_tui.runner.tokenizer import Tokenizer
from tests.reference.tiny_models import TinyShape, write_tiny_llama
from tests.runner.byte_vocabulary import tokenizer
from tests.runner.exact_npu import ExactNpu
from tests.runner.scripted_engine import ScriptedEngine

SHAPE = TinyShape(layers=2, embedding=64, heads=4, kv_heads=2, feed_forward=96)


def scripted(count: int) -> tuple[Slots, list[ScriptedEngine]]:
    words = tokenizer()
    first = ScriptedEngine(words.vocab_size, words.encode("or"), context=64)
    made = [first]

    def another() -> ScriptedEngine:
        made.append(first.another())
        return made[-1]

    return Slots(first, another, count), made


def ask(slots: Slots, ids: list[int], *, longest: int = 1) -> Answer:
    return slots.answer(
        ids,
        tokenizer(),
        Sampler(Sampling(temperature=0)),
        GenerationLimits(longest),
        lambda text: None,
        lambda: False,
    )


def test_one_conversation_stays_in_one_slot() -> None:
    slots, made = scripted(4)
    ids = [1, 2, 3]
    for _ in range(4):
        answer = ask(slots, ids)
        ids = [*ids, *answer.tokens, 9]
    assert len(made) == 1
    assert len(slots) == 1
    # Beside what is new, the last token of the answer was never computed.
    assert [len(part) for part in made[0].prefills] == [3, 2, 2, 2]


def test_another_conversation_gets_a_slot_of_its_own_and_both_go_on() -> None:
    slots, made = scripted(2)
    ask(slots, [1, 2, 3, 4])
    ask(slots, [5, 6, 7, 8])
    assert ask(slots, [1, 2, 3, 4, 9]).reused_tokens == 4
    assert ask(slots, [5, 6, 7, 8, 9]).reused_tokens == 4
    assert len(made) == 2


def test_when_all_are_taken_the_one_unused_longest_is_given_up() -> None:
    slots, _ = scripted(2)
    ask(slots, [1, 2, 3, 4])
    ask(slots, [5, 6, 7, 8])
    ask(slots, [1, 2, 3, 4, 9])
    ask(slots, [10, 11, 12, 13])
    assert ask(slots, [1, 2, 3, 4, 9, 9]).reused_tokens == 5
    assert ask(slots, [5, 6, 7, 8]).reused_tokens == 0


def test_a_shared_beginning_does_not_push_out_a_long_conversation() -> None:
    slots, made = scripted(2)
    long = [1, 2, *range(20, 40)]
    ask(slots, long)
    ask(slots, [1, 2, *range(60, 90)])
    assert len(made) == 2
    assert ask(slots, [*long, 9]).reused_tokens == len(long)


def test_a_failed_answer_is_forgotten() -> None:
    words = tokenizer()
    broken = [RuntimeError("gone")]

    def once() -> None:
        if broken:
            raise broken.pop()

    engine = ScriptedEngine(words.vocab_size, words.encode("or"), before_decode=once)
    slots = Slots(engine, engine.another, 1)
    with pytest.raises(RuntimeError):
        ask(slots, [1, 2, 3], longest=3)
    assert engine.position == 0
    assert ask(slots, [1, 2, 3], longest=3).reused_tokens == 0


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[OrkPack, Tokenizer]]:
    folder = tmp_path_factory.mktemp("slots")
    pack_gguf(write_tiny_llama(folder / "tiny.gguf", shape=SHAPE), folder / "tiny.orkpack")
    with OrkPack.open(folder / "tiny.orkpack") as pack:
        yield pack, Tokenizer.from_metadata(pack.metadata)


def drawn(slots: Slots, words: Tokenizer, ids: list[int], seed: int) -> Answer:
    sampling = Sampling(temperature=1.0, top_k=0, top_p=1.0, min_p=0.0, seed=seed)
    return slots.answer(ids, words, Sampler(sampling), GenerationLimits(6), lambda text: None, lambda: False)


@pytest.mark.parametrize("on_npu", [False, True])
@settings(max_examples=10, deadline=None)
@given(
    order=st.lists(st.integers(0, 3), min_size=4, max_size=8),
    count=st.integers(1, 3),
)
def test_interleaved_conversations_get_what_each_would_get_alone(
    model: tuple[OrkPack, Tokenizer], on_npu: bool, order: list[int], count: int
) -> None:
    """The sessions share weights and an NPU; each one alone has the CPU, which computes the same bits."""
    pack, words = model
    engine = Engine.from_pack(pack, ExactNpu() if on_npu else None, context=128)
    shared = Slots(engine, engine.another, count)
    talks = {talk: words.encode(f"the rain {talk} in the") for talk in range(4)}
    for turn, talk in enumerate(order):
        ids = talks[talk]
        alone = Engine.from_pack(pack, context=128)
        wanted = drawn(Slots(alone, alone.another, 1), words, ids, seed=turn)
        got = drawn(shared, words, ids, seed=turn)
        assert got.tokens == wanted.tokens
        talks[talk] = [*ids, *got.tokens, *words.encode(" and")]


def test_the_same_seed_gives_the_same_answer_and_another_one_another(
    model: tuple[OrkPack, Tokenizer],
) -> None:
    pack, words = model
    engine = Engine.from_pack(pack, context=128)
    slots = Slots(engine, engine.another, 2)
    ids = words.encode("the rain")
    first = drawn(slots, words, ids, 3)
    assert drawn(slots, words, ids, 3).tokens == first.tokens
    assert drawn(slots, words, ids, 4).tokens != first.tokens
