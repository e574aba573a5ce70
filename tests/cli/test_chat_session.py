"""Conversations kept in files: ``--session``, ``/save`` and ``/load``, and the files that are refused."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from orkbench_tui.cli.chat_session import ChatSession
from orkbench_tui.cli.model_session import ModelSession
from orkbench_tui.errors import InvalidFileError, OrkError, RefusedError, UsageError
from orkbench_tui.runner.chat import Conversation, GenerationLimits
from orkbench_tui.runner.prompt_cache import binding_of, save_prompt
from orkbench_tui.runner.sampler import Sampler, Sampling
from tests.cli.test_prompt_file import SHAPE, complete, session_of
from tests.reference.tiny_models import write_tiny_llama


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    return write_tiny_llama(tmp_path / "tiny.gguf", shape=SHAPE)


def talk(session: ModelSession, *, system: str | None = None) -> Conversation:
    return Conversation(
        session.engine,
        session.tokenizer,
        session.template,
        Sampler(Sampling(temperature=0)),
        system=system,
        limits=GenerationLimits(6),
    )


def ask(conversation: Conversation, question: str) -> tuple[str, int]:
    answer = conversation.ask(question, lambda text: None)
    return answer.text, answer.reused_tokens


def test_a_conversation_goes_on_where_it_was_saved(tiny: Path, tmp_path: Path) -> None:
    first = session_of(tiny)
    told = talk(first, system="be brief")
    ask(told, "the rain")
    ChatSession().save(str(tmp_path / "chat"), first, told)
    second = session_of(tiny)
    taken = talk(second)
    assert "3 messages" in ChatSession().load(str(tmp_path / "chat"), second, taken)
    assert taken.messages == told.messages
    assert taken.context_used == told.context_used > 0
    on, again = ask(told, "and the wind"), ask(taken, "and the wind")
    assert on == again
    assert again[1] >= told.context_used - 40 > 0
    # The system text stays after a reset, as if it had been given here.
    taken.reset()
    assert [dict(m) for m in taken.messages] == [{"role": "system", "content": "be brief"}]


def test_a_session_file_is_begun_and_kept(tiny: Path, tmp_path: Path) -> None:
    path = tmp_path / "chat"
    for turn in range(2):
        session = session_of(tiny)
        kept, conversation = ChatSession(path), talk(session)
        kept.begin(session, conversation)
        assert len(conversation.messages) == 2 * turn
        ask(conversation, "the rain")
        kept.end(session, conversation)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_an_earlier_conversation_is_not_saved_after_a_reset(tiny: Path, tmp_path: Path) -> None:
    session = session_of(tiny)
    conversation = talk(session, system="be brief")
    ask(conversation, "the secret")
    conversation.reset()
    ChatSession().save(str(tmp_path / "chat"), session, conversation)
    other = session_of(tiny)
    ChatSession().load(str(tmp_path / "chat"), other, talk(other))
    assert other.engine.position == 0
    # What is in the live engine is forgotten too, so the next answer is right.
    assert ask(conversation, "the rain") == ask(talk(session_of(tiny), system="be brief"), "the rain")


def test_another_models_conversation_is_refused_and_nothing_changes(tiny: Path, tmp_path: Path) -> None:
    session = session_of(tiny)
    conversation = talk(session)
    ask(conversation, "the rain")
    ChatSession().save(str(tmp_path / "chat"), session, conversation)
    other = session_of(tiny)
    other.model_sha256 = lambda: "34" * 32
    fresh = talk(other)
    ask(fresh, "x")
    before = (list(fresh.messages), other.engine.position)
    with pytest.raises(RefusedError, match="model_sha256"):
        ChatSession().load(str(tmp_path / "chat"), other, fresh)
    assert (list(fresh.messages), other.engine.position) == before


@pytest.mark.parametrize(
    "notes",
    [
        b"",
        b"{",
        b"[]",
        b'{"messages": [], "left_out": 1}',
        b'{"messages": [{"role": "user", "content": "x"}], "left_out": 0}',
        b'{"messages": [{"role": "king", "content": "x"}], "left_out": 0}',
        b'{"messages": [{"role": "user", "content": 5}, {"role": "assistant", "content": ""}], "left_out": 0}',
        b'{"messages": [{"role": "assistant", "content": ""}, {"role": "user", "content": ""}], "left_out": 0}',
        b'{"messages": ' + b"[" * 50_000,
    ],
)
def test_what_is_no_conversation_is_refused_and_the_next_answer_is_right(
    tiny: Path, tmp_path: Path, notes: bytes
) -> None:
    writer = session_of(tiny)
    writer.engine.prefill([5, 6, 7])
    engine: Any = writer.engine
    save_prompt(tmp_path / "p", engine, [5, 6, 7], binding_of(engine, "12" * 32, "f32"), notes)
    session = session_of(tiny)
    conversation = talk(session)
    first = ask(conversation, "the rain")
    with pytest.raises(InvalidFileError):
        ChatSession().load(str(tmp_path / "p"), session, conversation)
    conversation.reset()
    assert ask(conversation, "the rain")[0] == first[0]


def test_files_that_cannot_be_taken(tiny: Path, tmp_path: Path) -> None:
    session = session_of(tiny)
    conversation = talk(session)
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "letter").write_text("dear all")
    for name, action in (("", "load"), ("", "save"), ("absent", "load"), ("pipe", "load"), ("pipe", "save")):
        with pytest.raises(UsageError):
            getattr(ChatSession(), action)(name and str(tmp_path / name), session, conversation)
    with pytest.raises(OrkError):
        ChatSession().save(str(tmp_path / "letter"), session, conversation)
    assert (tmp_path / "letter").read_text() == "dear all"


def test_a_session_that_cannot_be_kept_is_told_and_no_failure(
    tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    session = session_of(tiny)
    conversation = talk(session)
    ask(conversation, "the rain")
    ChatSession(tmp_path / "no" / "folder").end(session, conversation)
    assert f"no folder {tmp_path}" in capsys.readouterr().err


def test_questions_of_several_runs_are_one_conversation(tiny: Path, tmp_path: Path) -> None:
    words = ("chat", "--session", str(tmp_path / "chat"), "--max-tokens", "4", "--temperature", "0", "--json")
    (tmp_path / "question").write_text("and the wind")
    first = complete(tiny, *words, "--once", "the rain")
    second = complete(tiny, *words, "--file", str(tmp_path / "question"))
    assert (first.returncode, second.returncode) == (0, 0), first.stderr + second.stderr
    figures = [json.loads(done.stdout)["data"] for done in (first, second)]
    assert figures[1]["prompt_tokens"] > figures[0]["prompt_tokens"] + figures[0]["generated_tokens"]
    damaged = (tmp_path / "chat").read_bytes()[:-3]
    (tmp_path / "chat").write_bytes(damaged)
    third = complete(tiny, *words, "--once", "x")
    assert third.returncode == 1
    assert (tmp_path / "chat").read_bytes() == damaged


@pytest.mark.parametrize(
    "words",
    [
        ("chat", "--once", "a", "--file", "b"),
        ("chat", "--once", "a", "--session", "s", "--prompt-cache", "p"),
        ("chat", "--once", "a", "--json", "--json-lines"),
        ("chat", "--file", "/nowhere"),
        ("chat", "--once", "a", "--context-limit", "maybe"),
        ("complete",),
        ("complete", "a", "--file", "b"),
    ],
)
def test_options_that_do_not_go_together(tiny: Path, words: tuple[str, ...]) -> None:
    done = complete(tiny, *words)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1


def test_a_text_file_is_continued(tiny: Path, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("the rain")
    words = ("--max-tokens", "3", "--temperature", "0")
    from_file = complete(tiny, "complete", "--file", str(tmp_path / "text"), *words)
    assert from_file.returncode == 0, from_file.stderr
    assert from_file.stdout == complete(tiny, "complete", "the rain", *words).stdout
    (tmp_path / "text").write_bytes(b"a\xff")
    assert complete(tiny, "complete", "--file", str(tmp_path / "text")).returncode == 2


def test_an_answer_outgrows_the_context_only_when_asked_to(tiny: Path) -> None:
    words = (
        "complete",
        "the rain in the morning",
        "--context",
        "32",
        "--max-tokens",
        "60",
        "--temperature",
        "0",
    )
    stopped, shifted = complete(tiny, *words), complete(tiny, *words, "--context-limit", "shift")
    assert "the context is full" in stopped.stderr
    assert "outgrew the context" in shifted.stderr
    assert "ended by --max-tokens" in shifted.stderr
