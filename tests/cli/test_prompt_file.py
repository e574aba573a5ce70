"""``--prompt-cache`` and ``--kv-cache``: what is read is not computed again, and answers stay the same."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from orkbench_tui.cli.model_session import ModelSession, NpuUse
from orkbench_tui.cli.prompt_file import PromptFile, conversation_kept
from orkbench_tui.runner.chat import Conversation, GenerationLimits
from orkbench_tui.runner.chat_template import ChatTemplate
from orkbench_tui.runner.engine import Engine
from orkbench_tui.runner.gguf_file import GgufFile
from orkbench_tui.runner.gguf_weights import GgufWeights
from orkbench_tui.runner.sampler import Sampler, Sampling
from orkbench_tui.runner.tokenizer import Tokenizer
from tests.reference.tiny_models import CHATML, TinyShape, write_tiny_llama

SHAPE = TinyShape(layers=2, embedding=64, heads=4, kv_heads=2, feed_forward=96)
PROMPT = "the rain in the morning and the wind on the sea"


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    return write_tiny_llama(tmp_path / "tiny.gguf", shape=SHAPE)


def session_of(tiny: Path) -> ModelSession:
    file = GgufFile.open(tiny)
    return ModelSession(
        model="tiny",
        source="host",
        quant="f32",
        load_s=0.0,
        engine=Engine.from_floats(GgufWeights(file)),
        tokenizer=Tokenizer.from_metadata(file.metadata),
        template=ChatTemplate(CHATML, bos="", eos=""),
        metadata=file.metadata,
        npu_use=lambda: NpuUse(0, 0, 0),
        model_sha256=lambda: "12" * 32,
    )


def complete(tiny: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [
            sys.executable,
            "-m",
            "orkbench_tui.cli.main",
            "run",
            *words,
            "--model",
            str(tiny),
            "--quant",
            "f32",
        ],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=os.environ,
    )


def text_of(done: subprocess.CompletedProcess[str]) -> Any:
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["data"]["text"]


def test_only_what_is_new_is_left_to_compute(tiny: Path, tmp_path: Path) -> None:
    first = session_of(tiny)
    ids = first.tokenizer.encode(PROMPT)
    file = PromptFile(first, tmp_path / "p")
    file.load_for(ids)
    assert first.engine.position == 0
    first.engine.prefill(ids)
    file.save(ids)
    for other, held in ((ids, len(ids) - 1), ([*ids, 7, 8], len(ids)), ([*ids[:5], 200, 201], 5), ([200], 0)):
        second = session_of(tiny)
        PromptFile(second, tmp_path / "p").load_for(other)
        assert second.engine.position == held


def test_nothing_is_written_where_nothing_is_new(tiny: Path, tmp_path: Path) -> None:
    first = session_of(tiny)
    ids = first.tokenizer.encode(PROMPT)
    first.engine.prefill(ids)
    PromptFile(first, tmp_path / "p").save(ids)
    before = (tmp_path / "p").stat().st_mtime_ns
    second = session_of(tiny)
    file = PromptFile(second, tmp_path / "p")
    file.load()
    file.save(ids)
    file.save([*ids, 3][:4])
    assert (tmp_path / "p").stat().st_mtime_ns == before
    PromptFile(second, None).save(ids)


def test_a_conversation_begins_with_what_was_kept(tiny: Path, tmp_path: Path) -> None:
    answers = []
    for _ in range(2):
        session = session_of(tiny)
        conversation = Conversation(
            session.engine,
            session.tokenizer,
            session.template,
            Sampler(Sampling(temperature=0)),
            limits=GenerationLimits(6),
        )
        with conversation_kept(session, tmp_path / "p", conversation):
            answers.append(conversation.ask(PROMPT, lambda text: None))
    assert answers[0].reused_tokens == 0
    assert answers[1].reused_tokens == answers[1].prompt_tokens - 1
    assert answers[0].tokens == answers[1].tokens


@pytest.mark.parametrize("command", [("complete", PROMPT), ("chat", "--once", PROMPT)])
def test_answers_are_the_same_with_a_kept_prompt(
    tiny: Path, tmp_path: Path, command: tuple[str, ...]
) -> None:
    file = tmp_path / "kept"
    words = (*command, "--temperature", "0", "--max-tokens", "5", "--json")
    plain = text_of(complete(tiny, *words))
    kept = (*words, "--prompt-cache", str(file))
    assert text_of(complete(tiny, *kept)) == plain
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert text_of(complete(tiny, *kept)) == plain


def test_a_file_of_another_model_or_kind_is_refused(tiny: Path, tmp_path: Path) -> None:
    file = tmp_path / "kept"
    words = ("complete", PROMPT, "--max-tokens", "1", "--prompt-cache", str(file))
    assert complete(tiny, *words).returncode == 0
    other = write_tiny_llama(tmp_path / "other.gguf", shape=SHAPE, seed=9)
    done = complete(other, *words)
    assert done.returncode == 7 and "its model_sha256 is" in done.stderr
    done = complete(tiny, *words, "--kv-cache", "int8")
    assert done.returncode == 7 and "its cache is f32, this run's is int8" in done.stderr
    file.write_bytes(b"something else")
    done = complete(tiny, *words)
    assert done.returncode != 0 and "is not a prompt cache" in done.stderr
    assert file.read_bytes() == b"something else"


def test_the_cache_type_is_a_setting(tiny: Path) -> None:
    words = ("complete", PROMPT, "--temperature", "0", "--max-tokens", "2", "--json")
    assert complete(tiny, *words, "--kv-cache", "int8").returncode == 0
    done = complete(tiny, *words, "--kv-cache", "q4")
    assert done.returncode == 2
    assert "auto, f16, int8, f32" in done.stderr


def test_a_conversation_is_never_replaced_by_a_prompt(tiny: Path, tmp_path: Path) -> None:
    file = tmp_path / "talk"
    words = ("chat", "--once", PROMPT, "--max-tokens", "2", "--session", str(file))
    assert complete(tiny, *words).returncode == 0
    before = file.read_bytes()
    done = complete(tiny, "complete", PROMPT, "--max-tokens", "2", "--prompt-cache", str(file))
    assert done.returncode == 7 and "holds a conversation" in done.stderr and not done.stdout
    assert file.read_bytes() == before
    assert complete(tiny, *words).returncode == 0


def test_an_empty_file_is_a_name_only(tiny: Path, tmp_path: Path) -> None:
    for words in (("complete", PROMPT, "--prompt-cache"), ("chat", "--once", PROMPT, "--session")):
        file = tmp_path / words[0]
        file.touch()
        assert complete(tiny, *words, str(file), "--max-tokens", "2").returncode == 0
        assert file.stat().st_size


@pytest.mark.parametrize(
    "words", [("complete", PROMPT, "--prompt-cache"), ("chat", "--once", PROMPT, "--session")]
)
def test_a_place_that_takes_no_file_is_told_before_the_answer(
    tiny: Path, tmp_path: Path, words: tuple[str, ...]
) -> None:
    done = complete(tiny, *words, str(tmp_path / "none" / "kept"))
    assert done.returncode == 2 and f"no folder {tmp_path / 'none'}" in done.stderr and not done.stdout
    done = complete(tiny, *words, str(tmp_path))
    assert done.returncode == 2 and "is a folder" in done.stderr and not done.stdout
