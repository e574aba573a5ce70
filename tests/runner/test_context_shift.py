"""A full context with ``shift``: what stays, what goes, and that the engine holds exactly what it should."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orkbench_tui.errors import UsageError
from orkbench_tui.runner.chat import Answer, Conversation, GenerationLimits, generate
from orkbench_tui.runner.chat_template import ChatTemplate
from orkbench_tui.runner.engine import Engine
from orkbench_tui.runner.gguf_file import GgufFile
from orkbench_tui.runner.gguf_weights import GgufWeights
from orkbench_tui.runner.sampler import Sampler, Sampling
from orkbench_tui.runner.tokenizer import Tokenizer
from tests.reference.tiny_models import TinyShape, write_tiny_llama
from tests.runner.byte_vocabulary import tokenizer
from tests.runner.scripted_engine import ScriptedEngine
from tests.runner.test_chat import TEMPLATE

WORDS = tokenizer()
LETTERS = WORDS.encode("abcdefgijk")


def shifted(engine: ScriptedEngine, prompt: list[int], keep: int | None, longest: int | None = 40) -> Answer:
    return generate(
        engine,
        WORDS,
        prompt,
        Sampler(Sampling(temperature=0)),
        limits=GenerationLimits(longest),
        on_text=lambda text: None,
        keep=keep,
    )


@settings(deadline=None)
@given(context=st.integers(16, 36), prompt=st.integers(1, 15), keep=st.integers(0, 30))
def test_the_engine_holds_the_beginning_and_the_newest_and_nothing_else(
    context: int, prompt: int, keep: int
) -> None:
    engine = ScriptedEngine(WORDS.vocab_size, LETTERS, context=context)
    ids = list(range(60, 60 + prompt))
    answer = shifted(engine, ids, keep)
    assert answer.stop_reason == "length"
    assert answer.generated_tokens == 40
    assert answer.shifts >= 1
    assert list(answer.held) == engine.held
    assert len(engine.held) <= context
    first = min(keep, context // 2)
    everything = [*ids, *answer.tokens[:-1]]
    assert engine.held[:first] == everything[:first]
    newest = engine.held[first:]
    assert newest == everything[len(everything) - len(newest) :]


def test_without_it_the_answer_ends_at_the_limit() -> None:
    engine = ScriptedEngine(WORDS.vocab_size, LETTERS, context=16)
    answer = shifted(engine, [60, 61], None)
    assert (answer.stop_reason, answer.shifts, engine.position) == ("context", 0, 16)


def test_an_answer_without_a_limit_ends_all_the_same() -> None:
    engine = ScriptedEngine(WORDS.vocab_size, LETTERS, context=16)
    answer = shifted(engine, [60, 61], 1, longest=None)
    assert (answer.stop_reason, answer.generated_tokens) == ("length", 64)


def test_an_interrupt_while_room_is_made_leaves_what_was_computed() -> None:
    engine = ScriptedEngine(WORDS.vocab_size, LETTERS, context=16)

    def stop() -> bool:
        # Asked before a token and before the prefill of a shift; the latter is where the engine was rewound.
        return len(engine.rewinds) > 0

    answer = generate(
        engine,
        WORDS,
        [60, 61],
        Sampler(Sampling(temperature=0)),
        limits=GenerationLimits(40),
        on_text=lambda text: None,
        should_stop=stop,
        keep=1,
    )
    assert answer.stop_reason == "interrupted"
    assert list(answer.held) == engine.held == [60]


def test_what_follows_a_shift_is_what_follows_the_kept_text(tmp_path: Path) -> None:
    """The tokens after the last shift are those of a fresh engine given what is held."""
    shape = TinyShape(layers=2, embedding=64, heads=4, kv_heads=2, feed_forward=96)
    file = GgufFile.open(write_tiny_llama(tmp_path / "tiny.gguf", shape=shape))
    words = Tokenizer.from_metadata(file.metadata)
    engine = Engine.from_floats(GgufWeights(file), context=32)
    ids = words.encode("the rain in the morning")
    answer = generate(
        engine,
        words,
        ids,
        Sampler(Sampling(temperature=0)),
        limits=GenerationLimits(60),
        on_text=lambda text: None,
        keep=2,
    )
    assert answer.shifts >= 2
    fresh = Engine.from_floats(GgufWeights(file), context=32)
    logits = fresh.prefill(list(answer.held))
    assert int(logits.argmax()) == answer.tokens[-1]


def conversation(engine: ScriptedEngine, **options: object) -> Conversation:
    sampler = Sampler(Sampling(temperature=0))
    return Conversation(engine, WORDS, ChatTemplate(TEMPLATE), sampler, shift=True, **options)  # type: ignore[arg-type]


def test_the_oldest_turns_are_left_out_and_the_system_text_stays() -> None:
    engine = ScriptedEngine(WORDS.vocab_size, [*WORDS.encode("or"), WORDS.eos_id or 0], context=160)
    talk = conversation(engine, system="be brief", limits=GenerationLimits(8))
    for turn in range(8):
        talk.ask(f"question {turn}", lambda text: None)
    told = WORDS.decode(engine.held)
    assert talk.left_out > 0
    assert talk.left_out % 2 == 0
    assert "be brief" in told
    assert "question 7" in told
    assert "question 0" not in told
    # Nothing is lost: it is only not told to the model.
    assert [m["content"] for m in talk.messages if m["role"] == "user"] == [f"question {n}" for n in range(8)]
    assert engine.position <= 160


def test_a_long_answer_keeps_the_system_text() -> None:
    engine = ScriptedEngine(WORDS.vocab_size, LETTERS, context=96)
    talk = conversation(engine, system="be brief", limits=GenerationLimits(200))
    answer = talk.ask("go on", lambda text: None)
    assert answer.shifts >= 1
    assert "be brief" in WORDS.decode(engine.held)
    assert talk.held == answer.held
    # The next turn's prompt is another one, and still right.
    assert talk.ask("x", lambda text: None).stop_reason in ("length", "context")


def test_a_question_too_long_on_its_own_is_refused_and_nothing_changes() -> None:
    engine = ScriptedEngine(WORDS.vocab_size, [*WORDS.encode("or"), WORDS.eos_id or 0], context=96)
    talk = conversation(engine, limits=GenerationLimits(8))
    talk.ask("hello", lambda text: None)
    with pytest.raises(UsageError, match="the prompt has"):
        talk.ask("x" * 200, lambda text: None)
    assert (talk.left_out, len(talk.messages)) == (0, 2)


def test_reset_tells_everything_again() -> None:
    engine = ScriptedEngine(WORDS.vocab_size, [*WORDS.encode("or"), WORDS.eos_id or 0], context=96)
    talk = conversation(engine, limits=GenerationLimits(8))
    for _ in range(6):
        talk.ask("hello", lambda text: None)
    assert talk.left_out
    talk.reset()
    assert (talk.left_out, talk.messages) == (0, [])
