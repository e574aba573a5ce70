"""The chat at a real terminal: lines, pastes, Ctrl-C, what is echoed, and what the terminal is left like."""

from __future__ import annotations

import os
import re
import signal
import stat
import termios
from collections.abc import Iterator

import pytest

from orkbench_tui import locations
from tests.cli.chat_terminal import Terminal


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
    terminal.wait_for("core-ms predicted")
    terminal.wait_for(">>> ", 2)
    terminal.type("more\n")
    terminal.wait_for("core-ms predicted", 2)
    terminal.wait_for(">>> ", 3)
    terminal.type("\x04")
    assert terminal.code(again=lambda: terminal.type("\x04")) == 0
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
    assert terminal.code(again=lambda: terminal.type("\x03")) == 0


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


PASTE_ON, PASTE_OFF = "\x1b[?2004h", "\x1b[?2004l"
ECHOING = termios.ECHO | termios.ICANON


def leave(terminal: Terminal) -> None:
    terminal.type("/exit\n")
    assert terminal.code() == 0
    assert terminal.modes() & ECHOING == ECHOING
    assert terminal.shown.rfind(PASTE_OFF) > terminal.shown.rfind(PASTE_ON)


def test_marked_paste_is_one_question(terminal: Terminal) -> None:
    terminal.wait_for(">>> ")
    terminal.type("\x1b[200~one\ntwo\nthree\n\x1b[201~")
    terminal.wait_for("three")
    terminal.type("\n")
    terminal.wait_for("core-ms")
    terminal.type("/stats\n")
    terminal.wait_for("answers    1")
    leave(terminal)


def test_lines_that_arrive_together_are_one_question(terminal: Terminal) -> None:
    terminal.wait_for(">>> ")
    terminal.press_until("one\ntwo\nthree\n/stats\n", "answers")
    assert "3 lines that came together" in terminal.shown
    assert "answers    1\r" in terminal.shown
    leave(terminal)


@pytest.mark.parametrize("terminal", [SLOW], indirect=True)
def test_what_is_typed_during_an_answer_waits_for_the_prompt(terminal: Terminal) -> None:
    terminal.wait_for(">>> ")
    terminal.type("hello\n")
    terminal.wait_for("tick")
    assert terminal.modes() & ECHOING == 0
    terminal.type("/stats\n")
    terminal.wait_for("tick", 60)
    assert "/stats" not in terminal.shown
    terminal.wait_for("answers    1")
    leave(terminal)


@pytest.mark.parametrize("terminal", [SLOW], indirect=True)
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_terminal_is_restored_when_ended_in_mid_answer(terminal: Terminal, number: int, code: int) -> None:
    terminal.wait_for(">>> ")
    terminal.type("hello\n")
    terminal.wait_for("tick")
    assert terminal.modes() & ECHOING == 0
    os.kill(terminal.pid, number)
    assert terminal.code() == code
    assert terminal.modes() & ECHOING == ECHOING


def test_terminal_is_restored_when_ended_at_the_prompt(terminal: Terminal) -> None:
    terminal.wait_for(PASTE_ON)
    terminal.wait_for(">>> ")
    terminal.type("abc")
    terminal.wait_for("abc")
    # The line editor misses a signal that comes while it handles a key.
    os.kill(terminal.pid, signal.SIGTERM)
    assert terminal.code(again=lambda: os.kill(terminal.pid, signal.SIGTERM)) == 143
    assert terminal.modes() & ECHOING == ECHOING
    assert terminal.shown.rfind(PASTE_OFF) > terminal.shown.rfind(PASTE_ON)


@pytest.mark.parametrize("terminal", [SLOW], indirect=True)
def test_terminal_is_restored_while_suspended(terminal: Terminal) -> None:
    terminal.wait_for(">>> ")
    terminal.type("hello\n")
    terminal.wait_for("tick")
    # A session leader without a parent in its session is not stopped by SIGTSTP; the modes come back all the same.
    os.kill(terminal.pid, signal.SIGTSTP)
    terminal.wait_for("tick", 20)
    os.kill(terminal.pid, signal.SIGCONT)
    terminal.wait_until(lambda: terminal.modes() & ECHOING == 0)
    terminal.type("\x03")
    terminal.wait_for("interrupted")
    leave(terminal)


def test_typing_between_two_ctrl_c_resets_the_count(terminal: Terminal) -> None:
    terminal.wait_for(">>> ")
    terminal.press_until("\x03", "Ctrl-D leaves")
    terminal.wait_for(">>> ", 2)
    terminal.type("half a line")
    terminal.wait_for("half a line")
    terminal.type("\x03")
    terminal.wait_for(">>> ", 3)
    terminal.press_until("\x03", "Ctrl-D leaves", 2)
    terminal.type("/stats\n")
    terminal.wait_for("answers    0")
    leave(terminal)


def test_reset_empties_the_context_and_says_what_can_be_reused(terminal: Terminal) -> None:
    terminal.wait_for(">>> ")
    terminal.type("hello\n")
    terminal.wait_for("core-ms")
    terminal.type("/reset\n")
    terminal.wait_for("new conversation")
    terminal.type("/stats\n")
    terminal.wait_for("context    0 of")
    terminal.wait_for("core-ms: the times of all NPU cores added up")
    assert re.search(r"reusable   \d+ tokens", terminal.shown)
    leave(terminal)


def test_commands_in_capitals_and_exit_as_a_word(terminal: Terminal) -> None:
    terminal.wait_for(">>> ")
    terminal.type("Quit\n")
    terminal.wait_for("/exit or Ctrl-D leaves")
    terminal.type("/Stats\n")
    terminal.wait_for("answers    0")
    terminal.type("/EXIT\n")
    assert terminal.code() == 0


@pytest.mark.parametrize("terminal", [{"ORK_TEST_DIE_AT": "3"}], indirect=True)
@pytest.mark.parametrize("again", ["\n", "/retry\n", "\x1b[A\n"])
def test_question_of_a_lost_npu_is_asked_again(terminal: Terminal, again: str) -> None:
    terminal.wait_for(">>> ")
    terminal.type("hello\n")
    terminal.wait_for("error: the simulated NPU is gone: connection closed\r\n")
    terminal.wait_for("/retry asks it again")
    assert "run the command again" not in terminal.shown
    terminal.wait_for(">>> ", 2)
    terminal.press_until(again, "core-ms")
    terminal.type("/stats\n")
    terminal.wait_for("answers    1")
    leave(terminal)


@pytest.mark.parametrize("terminal", [{"ORK_TEST_DIE_AT": "3", "ORK_TEST_CLOSED_FOR": "2"}], indirect=True)
def test_chat_outlives_an_npu_that_does_not_come_back_at_once(terminal: Terminal) -> None:
    terminal.wait_for(">>> ")
    terminal.type("hello\n")
    terminal.wait_for("error: no NPU here")
    terminal.wait_for("Enter tries to open the NPU again")
    terminal.press_until("\n", "error: no NPU here", 2)
    terminal.press_until("\n", "core-ms")
    terminal.type("/stats\n")
    terminal.wait_for("answers    1")
    leave(terminal)


@pytest.mark.parametrize("setting", ["on", "off"])
def test_questions_come_back_in_the_next_chat_unless_switched_off(setting: str) -> None:
    for typed in ("hello there\n", "\x1b[A"):
        terminal = Terminal(ORK_CHAT_HISTORY=setting)
        try:
            terminal.wait_for(">>> ")
            terminal.type(typed)
            if typed.endswith("\n"):
                terminal.wait_for("core-ms")
            elif setting == "on":
                terminal.wait_for("hello there")
            terminal.press_until("\x03", ">>> ", 3 if typed.endswith("\n") else 2)
        finally:
            terminal.close()
    file = locations.chat_history_file()
    assert file.exists() == (setting == "on")
    if file.exists():
        assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_long_answers_break_between_words() -> None:
    terminal = Terminal(columns=40, ORK_TEST_SCRIPT="some words of seven and more letters " * 5)
    try:
        terminal.wait_for(">>> ")
        terminal.type("hello\n")
        terminal.wait_for("core-ms")
        answer = terminal.shown.split("hello")[-1].partition("[host")[0]
        rows = [row for row in answer.replace(PASTE_OFF, "").split("\r\n") if row.strip("\r")]
        assert max(len(row) for row in rows) <= 40
        assert " ".join(" ".join(rows).split()) == ("some words of seven and more letters " * 5).strip()
    finally:
        terminal.close()


def test_ctrl_r_finds_an_earlier_question(terminal: Terminal) -> None:
    terminal.wait_for(">>> ")
    for asked, question in enumerate(("where is the sea", "what is rain"), 1):
        terminal.type(question + "\n")
        terminal.wait_for("core-ms predicted", asked)
        terminal.wait_for(">>> ", asked + 1)
    terminal.press_until("\x12", "reverse-i-search")
    terminal.type("the se")
    terminal.wait_until(lambda: "the se" in terminal.shown.rpartition("reverse-i-search")[2])
    before = terminal.shown.count("core-ms predicted")
    # Ctrl-J, which "\n" is, would only end the search.
    terminal.type("\r")
    terminal.wait_for("core-ms predicted", before + 1)
    assert "where is the sea" in terminal.shown.rpartition("reverse-i-search")[2]
    terminal.type("/exit\n")
    assert terminal.code() == 0


def test_files_that_are_not_there_leave_the_chat_as_it_was(terminal: Terminal) -> None:
    terminal.wait_for(">>> ")
    terminal.type("/save\n")
    terminal.wait_for("/save FILE: the file is missing")
    terminal.type("/load\n")
    terminal.wait_for("/load FILE: the file is missing")
    terminal.type("hello\n")
    terminal.wait_for("wor ld")
    terminal.wait_for("core-ms predicted")
    terminal.type("\x04")
    assert terminal.code(again=lambda: terminal.type("\x04")) == 0
