"""``ork run`` with a scripted engine: documents, streams, refusals. The chat at a terminal: test_chat_terminal.py."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.chat_terminal import PROGRAM, WAIT_S, environment


def run(*words: str, stdin: str | bytes | None = None, **extra: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, str(PROGRAM), "run", *words],
        input=stdin.encode() if isinstance(stdin, str) else stdin or b"",
        capture_output=True,
        timeout=60,
        check=False,
        env=environment(**extra),
    )
    return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())


def test_once_json_is_one_document_with_exactly_these_keys() -> None:
    done = run("chat", "--once", "hello", "--temperature", "0", "--json")
    document = json.loads(done.stdout)
    data: dict[str, Any] = document["data"]
    assert done.returncode == 0
    assert document["schema"] == "ork.run.chat/1"
    assert document["source"] == "sim"
    assert list(data) == [
        "text",
        "stop_reason",
        "model",
        "target",
        "quant",
        "prompt_tokens",
        "generated_tokens",
        "load_s",
        "residence",
        "prefill_tok_s",
        "decode_tok_s",
        "npu",
    ]
    assert (data["text"], data["stop_reason"]) == ("wor ld", "end")
    assert data["npu"] == {"submits": 3, "tasks": 9, "predicted_ms": 1.5}
    assert data["decode_tok_s"] > 0


def test_complete_is_raw_and_has_the_same_shape() -> None:
    chat = json.loads(run("chat", "--once", "hello", "--json").stdout)
    raw = json.loads(run("complete", "hello", "--max-tokens", "1", "--json").stdout)
    assert raw["schema"] == "ork.run.complete/1"
    assert list(raw["data"]) == list(chat["data"])
    assert raw["data"]["prompt_tokens"] == 1 < chat["data"]["prompt_tokens"]
    assert raw["data"]["decode_tok_s"] is None


def test_piped_text_is_one_question_and_only_the_answer_is_printed() -> None:
    done = run("chat", "--temperature", "0", stdin="hello\nhello again\n")
    assert (done.returncode, done.stdout) == (0, "wor ld\n")
    line = done.stderr.splitlines()[-1]
    assert re.fullmatch(
        r"\[host: in \d+ tok [\d.]+/s, out 5 tok [\d.]+/s \| sim NPU 1.5 core-ms predicted\]", line
    )
    assert len(line) <= 80


def test_complete_reads_standard_input_on_request() -> None:
    assert run("complete", "-", "--temperature", "0", stdin=b"hello").stdout == "wor ld\n"


@pytest.mark.parametrize("words", [("chat",), ("complete", "-")])
def test_input_that_is_not_utf8_is_refused_with_its_place(words: tuple[str, ...]) -> None:
    done = run(*words, stdin="grün ".encode() + b"\xff\xfe")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "error: standard input is not UTF-8 text: byte 6; give UTF-8 text\n"


def test_argument_that_is_not_utf8_is_refused_with_its_place() -> None:
    done = run("chat", "--once", os.fsdecode("grün ".encode() + b"\xff"))
    assert (done.returncode, done.stdout) == (2, "")
    assert "byte 6" in done.stderr


def test_answer_cannot_steer_the_terminal() -> None:
    done = run("chat", "--once", "hi", "--temperature", "0", ORK_TEST_SCRIPT="a\x1b]0;title\x07b")
    assert "\x1b" not in done.stdout
    assert "\x07" not in done.stdout


def test_without_a_template_it_says_so() -> None:
    done = run("chat", "--once", "hi", "--model", "base")
    assert done.returncode == 0
    assert "no chat template" in done.stderr


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("--temperature", "-1"), "--temperature"),
        (("--top-p", "1.5"), "--top-p"),
        (("--min-p", "-0.5"), "--min-p"),
        (("--top-k", "-3"), "--top-k"),
        (("--repeat-penalty", "0"), "--repeat-penalty"),
        (("--max-tokens", "0"), "--max-tokens"),
        (("--seed", "-1"), "--seed"),
        (("--context", "1"), "--context"),
        (("--threads", "-1"), "--threads"),
        (("--quant", "w2"), "--quant"),
        (("--target", "moon"), "--target"),
        (("--temperature", "warm"), "--temperature"),
    ],
)
@pytest.mark.parametrize("command", [("chat", "--once", "hi"), ("complete", "hi")])
def test_values_out_of_range_are_one_line_and_exit_2(
    command: tuple[str, ...], words: tuple[str, ...], named: str
) -> None:
    done = run(*command, *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert len(done.stderr.splitlines()) == 1
    assert named in done.stderr


@pytest.mark.parametrize("words", [("chat", "--once", "  "), ("complete", ""), ("chat",)])
def test_nothing_to_answer_is_a_usage_error(words: tuple[str, ...]) -> None:
    done = run(*words)
    assert done.returncode == 2
    assert "no text" in done.stderr


def test_prompt_longer_than_the_context_says_the_numbers() -> None:
    done = run("complete", "hello " * 40, "--context", "16")
    assert done.returncode == 2
    assert re.search(r"prompt has \d+ tokens and the context holds 16.*--context", done.stderr)
    assert done.stdout == ""


def test_lost_device_is_one_line_exit_3_and_closes(tmp_path: Path) -> None:
    mark = tmp_path / "closed"
    done = run("chat", "--once", "hi", ORK_TEST_DIE_AT="2", ORK_TEST_CLOSED=str(mark))
    assert done.returncode == 3
    assert done.stderr.splitlines() == [
        "error: the simulated NPU is gone: connection closed; run the command again"
    ]
    assert mark.read_text() == "closed\n"


def test_lost_device_gives_no_half_document() -> None:
    done = run("chat", "--once", "hi", "--json", ORK_TEST_DIE_AT="2")
    assert (done.returncode, done.stdout) == (3, "")


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_signals_in_mid_answer_close_and_exit(tmp_path: Path, number: int, code: int) -> None:
    mark = tmp_path / "closed"
    process = subprocess.Popen(
        [sys.executable, str(PROGRAM), "run", "chat", "--once", "hi", "--temperature", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(ORK_TEST_SCRIPT="x" * 400, ORK_TEST_STEP_S="0.05", ORK_TEST_CLOSED=str(mark)),
    )
    assert process.stdout is not None
    assert process.stdout.read(2) == b"xx"
    process.send_signal(number)
    _, errors = process.communicate(timeout=WAIT_S)
    assert process.returncode == code
    assert b"Traceback" not in errors
    assert mark.read_text() == "closed\n"


def test_json_needs_one_question_at_a_terminal() -> None:
    leader, follower = pty.openpty()
    try:
        done = subprocess.run(
            [sys.executable, str(PROGRAM), "run", "chat", "--json"],
            stdin=follower,
            capture_output=True,
            timeout=60,
            check=False,
            env=environment(),
        )
    finally:
        os.close(leader)
        os.close(follower)
    assert done.returncode == 2
    assert b"--once" in done.stderr
