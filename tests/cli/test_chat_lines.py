"""``ork run chat --json-lines``: events out for questions in, and lines that are neither."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from typing import Any

import pytest

from tests.cli.chat_terminal import PROGRAM, environment

WORDS = [sys.executable, str(PROGRAM), "run", "chat", "--json-lines", "--temperature", "0"]


def run(stdin: bytes, *words: str, **extra: str) -> tuple[int, list[dict[str, Any]], str]:
    done = subprocess.run(
        [*WORDS, *words], input=stdin, env=environment(**extra), capture_output=True, timeout=60, check=False
    )
    documents = [json.loads(line) for line in done.stdout.splitlines()]
    assert all(document["schema"] == "ork.run.chat.event/1" for document in documents)
    return done.returncode, [document["data"] for document in documents], done.stderr.decode()


def test_a_conversation_is_events() -> None:
    code, events, notes = run(b'"hello"\n\n{"question": "or"}\n{"command": "reset"}\n"hello"\n')
    assert (code, notes) == (0, "")
    kinds = [event["event"] for event in events if event["event"] != "text"]
    assert kinds == ["ready", "answer", "answer", "reset", "answer"]
    answers = [event for event in events if event["event"] == "answer"]
    for answer in answers:
        pieces = [e["text"] for e in events if e["event"] == "text" and e["line"] == answer["line"]]
        assert "".join(pieces) == answer["text"] == "wor ld"
        assert (answer["stop_reason"], answer["shifts"], answer["messages_left_out"]) == ("end", 0, 0)
    assert answers[1]["prompt_tokens"] > answers[0]["prompt_tokens"] == answers[2]["prompt_tokens"]
    assert answers[1]["reused_tokens"] > 0


@pytest.mark.parametrize(
    "line",
    [
        b"hello",
        b"\xff",
        b'""',
        b"3",
        b'{"question": 3}',
        b'{"text": "x"}',
        b'{"command": "dance"}',
        b'"\\ud800"',
        b"[" * 50_000,
    ],
)
def test_a_bad_line_is_an_event_and_the_next_one_is_answered(line: bytes) -> None:
    code, events, notes = run(line + b'\n"hello"\n')
    assert (code, notes) == (2, "")
    assert [event["event"] for event in events if event["event"] != "text"] == ["ready", "error", "answer"]
    error = next(event for event in events if event["event"] == "error")
    assert (error["line"], error["exit_code"]) == (1, 2)


def test_a_question_that_does_not_fit_is_an_event() -> None:
    code, events, _ = run(json.dumps("x" * 300).encode() + b'\n"hello"\n', "--context", "256")
    assert code == 2
    assert [e["event"] for e in events if e["event"] != "text"] == ["ready", "error", "answer"]


def test_one_question_from_an_argument() -> None:
    code, events, _ = run(b"", "--once", "hello")
    assert code == 0
    assert [e["event"] for e in events if e["event"] != "text"] == ["ready", "answer"]


def test_a_lost_device_is_an_event_and_its_exit_code() -> None:
    code, events, notes = run(b'"hello"\n', ORK_TEST_DIE_AT="2")
    assert code == 3
    assert events[-1]["event"] == "error"
    assert events[-1]["exit_code"] == 3
    assert len(notes.splitlines()) == 1


def test_ctrl_c_ends_an_answer_with_its_event() -> None:
    program = subprocess.Popen(
        WORDS,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(ORK_TEST_STEP_S="0.3", ORK_TEST_SCRIPT="abcdefgh" * 20),
    )
    assert program.stdin is not None
    assert program.stdout is not None
    program.stdin.write(b'"hello"\n')
    program.stdin.flush()
    while json.loads(program.stdout.readline())["data"]["event"] != "text":
        pass
    program.send_signal(signal.SIGINT)
    rest, _ = program.communicate(timeout=60)
    last = json.loads(rest.splitlines()[-1])["data"]
    assert (program.returncode, last["event"], last["stop_reason"]) == (130, "answer", "interrupted")
