"""``ork run`` with a scripted engine: documents, streams, refusals, and the chat at a real terminal."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

PROGRAM = Path(__file__).with_name("chat_program.py")
ROOT = Path(__file__).parents[2]
WAIT_S = 20.0


def environment(**extra: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm", **extra}


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
        "model",
        "target",
        "quant",
        "prompt_tokens",
        "generated_tokens",
        "load_s",
        "prefill_tok_s",
        "decode_tok_s",
        "npu",
    ]
    assert data["text"] == "wor ld"
    assert data["npu"] == {"submits": 3, "tasks": 9, "predicted_ms": 0.0}
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
    assert re.search(r"prompt \d+ tok .* answer \d+ tok .* NPU 3 jobs .*host", done.stderr)


def test_complete_reads_standard_input_on_request() -> None:
    assert run("complete", "-", "--temperature", "0", stdin=b"hello \xff").stdout == "wor ld\n"


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


class Terminal:
    """A program on a pseudo-terminal, and what it showed so far."""

    def __init__(self, **extra: str) -> None:
        self.shown = ""
        self.pid, self._fd = pty.fork()
        if self.pid == 0:
            words = [sys.executable, str(PROGRAM), "run", "chat", "--temperature", "0"]
            os.execve(sys.executable, words, environment(**extra))

    def wait_for(self, text: str, times: int = 1) -> None:
        deadline = time.monotonic() + WAIT_S
        while self.shown.count(text) < times:
            assert time.monotonic() < deadline, f"no {text!r} in {self.shown!r}"
            self._read()

    def type(self, text: str) -> None:
        os.write(self._fd, text.encode())

    def press_until(self, key: str, text: str) -> None:
        """Press ``key`` once, and again where it went unheard.

        The line editor may drop a key that comes while it is still setting up the terminal.
        """
        settled = time.monotonic() + 0.2
        while time.monotonic() < settled:
            self._read()
        while text not in self.shown:
            self.type(key)
            heard_by = time.monotonic() + 3
            while text not in self.shown and time.monotonic() < heard_by:
                self._read()

    def code(self) -> int:
        """The exit code, once the program has left."""
        deadline = time.monotonic() + WAIT_S
        while True:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.pid = 0
                return os.waitstatus_to_exitcode(status)
            assert time.monotonic() < deadline, f"still there: {self.shown!r}"
            self._read()

    def _read(self) -> None:
        if select.select([self._fd], [], [], 0.1)[0]:
            try:
                self.shown += os.read(self._fd, 65536).decode(errors="replace")
            except OSError:
                # The other side has closed; Linux reports that as an error.
                time.sleep(0.02)

    def close(self) -> None:
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self._fd)


@pytest.fixture
def terminal(request: pytest.FixtureRequest) -> Iterator[Terminal]:
    opened = Terminal(**getattr(request, "param", {}))
    yield opened
    opened.close()


SLOW = {"ORK_TEST_SCRIPT": "tick " * 100, "ORK_TEST_STEP_S": "0.05"}


def test_chat_answers_turn_by_turn_and_leaves_on_ctrl_d(terminal: Terminal) -> None:
    terminal.wait_for(">>> ")
    terminal.type("hello\n")
    terminal.wait_for("wor ld")
    terminal.wait_for("tok/s")
    terminal.wait_for(">>> ", 2)
    terminal.type("more\n")
    terminal.wait_for("reused")
    terminal.wait_for(">>> ", 3)
    terminal.type("\x04")
    assert terminal.code() == 0
    assert "Traceback" not in terminal.shown


@pytest.mark.parametrize("terminal", [SLOW], indirect=True)
def test_ctrl_c_stops_the_answer_and_not_the_program(terminal: Terminal) -> None:
    terminal.wait_for(">>> ")
    terminal.type("hello\n")
    terminal.wait_for("tick")
    terminal.type("\x03")
    terminal.wait_for("interrupted")
    terminal.wait_for(">>> ", 2)
    terminal.type("/stats\n")
    terminal.wait_for("answers    1")
    terminal.type("/exit\n")
    assert terminal.code() == 0
    assert terminal.shown.count("tick") < 100


def test_ctrl_c_at_the_prompt_hints_and_leaves_when_repeated(terminal: Terminal) -> None:
    terminal.wait_for(">>> ")
    terminal.press_until("\x03", "Ctrl-D leaves")
    terminal.wait_for(">>> ", 2)
    terminal.type("\x03")
    assert terminal.code() == 0


def test_slash_commands(terminal: Terminal) -> None:
    terminal.wait_for(">>> ")
    for typed, shown in (
        ("/help", "start a new conversation"),
        ("/resett", "did you mean /reset?"),
        ("/zzz", "no command /zzz"),
        ("/reset", "new conversation"),
        ("/stats", "context    0 of"),
    ):
        terminal.type(typed + "\n")
        terminal.wait_for(shown)
    terminal.type("/exit\n")
    assert terminal.code() == 0


def test_block_of_lines_is_one_question(terminal: Terminal) -> None:
    terminal.wait_for(">>> ")
    terminal.type('"""one\n')
    terminal.wait_for("... ")
    terminal.type('two"""\n')
    terminal.wait_for("wor ld")
    terminal.type("/stats\n")
    terminal.wait_for("answers    1")
    terminal.type("/exit\n")
    assert terminal.code() == 0


@pytest.mark.parametrize("terminal", [{"ORK_TEST_DIE_AT": "3"}], indirect=True)
def test_lost_device_is_one_line_and_the_chat_goes_on(terminal: Terminal) -> None:
    terminal.wait_for(">>> ")
    terminal.type("hello\n")
    terminal.wait_for("error: the simulated NPU is gone")
    terminal.wait_for(">>> ", 2)
    terminal.type("hello\n")
    terminal.wait_for("wor ld")
    terminal.type("/exit\n")
    assert terminal.code() == 0
    assert "Traceback" not in terminal.shown


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
