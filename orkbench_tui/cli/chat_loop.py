"""The chat at a terminal: a prompt, streamed answers, slash commands, Ctrl-C that stops an answer only."""

from __future__ import annotations

import difflib
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager
from enum import Enum
from typing import Protocol

from orkbench_tui.cli import diagnostics, output
from orkbench_tui.cli.answer_report import end_note, left_out_note, stats_line
from orkbench_tui.cli.chat_session import ChatSession
from orkbench_tui.cli.chat_stats import stats_rows
from orkbench_tui.cli.model_session import ModelSession
from orkbench_tui.cli.quiet_terminal import QuietTerminal
from orkbench_tui.cli.stop_switch import StopSwitch
from orkbench_tui.cli.word_wrap import WordWrap
from orkbench_tui.errors import NoDeviceError, OrkError, UnhealthyError
from orkbench_tui.runner.chat import Answer, Conversation

__all__ = ["ChatLoop", "LineSource"]

PROMPT, CONTINUATION, BLOCK = ">>> ", "... ", '"""'
_LEAVING = ("/exit", "/quit", "/bye")


class LineSource(Protocol):
    """Where lines come from; ``cli.prompt.Prompt`` at a terminal."""

    def read(self, prompt: str) -> str: ...

    def abandoned(self) -> str: ...

    def more_waiting(self) -> bool: ...

    def remember(self, text: str) -> None: ...


class _StoppedTwice(KeyboardInterrupt):
    """Ctrl-C again while an answer was stopping: ends the program."""


class _Next(Enum):
    """What happens after a line."""

    GO_ON = 0
    LEAVE = 1
    REOPEN = 2


class ChatLoop:
    """One conversation. When the board goes away it is opened again for the next question."""

    def __init__(
        self,
        open_session: Callable[[], AbstractContextManager[ModelSession]],
        start: Callable[[ModelSession], Conversation],
        lines: LineSource,
        kept: ChatSession | None = None,
    ) -> None:
        self._open_session = open_session
        self._start = start
        self._lines = lines
        self._kept = kept or ChatSession()
        self._conversation: Conversation | None = None
        self._answers: list[Answer] = []
        self._ahead: deque[str] = deque()
        self._unanswered = ""

    def run(self) -> None:
        """Talk until the user leaves."""
        while True:
            try:
                with self._open_session() as session:
                    conversation = self._conversation
                    if conversation is None:
                        conversation = self._start(session)
                        self._kept.begin(session, conversation)
                        self._conversation = conversation
                        _greet(session, conversation)
                    else:
                        conversation.attach(session.engine)
                    try:
                        if self._talk(session, conversation) is _Next.LEAVE:
                            self._kept.end(session, conversation)
                            return
                    except KeyboardInterrupt:
                        self._kept.end(session, conversation)
                        raise
            except OrkError as error:
                if self._conversation is None:
                    raise
                diagnostics.report(error)
                if not self._wants_another_try():
                    return

    def _wants_another_try(self) -> bool:
        """Ask while there is no NPU. A question typed here is answered once there is one."""
        diagnostics.note("the conversation is kept; Enter tries to open the NPU again, /exit leaves")
        try:
            text = self._lines.read(PROMPT).strip()
        except (EOFError, KeyboardInterrupt):
            output.emit("")
            return False
        except OrkError as error:
            diagnostics.report(error)
            return True
        if text.lower() in _LEAVING:
            return False
        self._ahead.append(text)
        return True

    def _talk(self, session: ModelSession, conversation: Conversation) -> _Next:
        armed = False
        while True:
            try:
                text = self._read_question().strip()
                if text:
                    armed = False
                outcome = self._handle(text, session, conversation)
            except EOFError:
                output.emit("")
                return _Next.LEAVE
            except _StoppedTwice:
                raise
            except KeyboardInterrupt:
                output.emit("")
                if self._lines.abandoned().strip():
                    armed = False
                    continue
                if armed:
                    return _Next.LEAVE
                armed = True
                diagnostics.note("Ctrl-C again or Ctrl-D leaves; /help lists the commands")
                continue
            except OrkError as error:
                diagnostics.report(error)
                continue
            if outcome is not _Next.GO_ON:
                return outcome

    def _read_question(self) -> str:
        """A line, the lines of a paste, or the lines between two marks.

        Raises:
            KeyboardInterrupt: at the prompt; in later lines Ctrl-C drops what was typed and gives "".
        """
        first = self._ahead.popleft() if self._ahead else self._lines.read(PROMPT)
        try:
            if first.lstrip().startswith(BLOCK):
                return self._read_block(first.lstrip()[len(BLOCK) :])
            return self._with_paste(first)
        except KeyboardInterrupt:
            output.emit("")
            self._ahead.clear()
            return ""

    def _read_block(self, text: str) -> str:
        while BLOCK not in text:
            text += "\n" + self._lines.read(CONTINUATION)
        return text.partition(BLOCK)[0]

    def _with_paste(self, first: str) -> str:
        """``first`` and the lines that arrived together with it: a paste where the terminal does not mark pastes.

        A command in between ends the question and is done after it.
        """
        lines = [first]
        while first.strip() and not first.startswith("/") and not self._ahead and self._lines.more_waiting():
            line = self._lines.read(CONTINUATION)
            if _is_command(line):
                self._ahead.append(line)
            else:
                lines.append(line)
        if len(lines) > 1:
            diagnostics.note(f"({len(lines)} lines that came together: one question)")
        return "\n".join(lines)

    def _handle(self, text: str, session: ModelSession, conversation: Conversation) -> _Next:
        if not text:
            return self._retry(session, conversation) if self._unanswered else _Next.GO_ON
        self._lines.remember(text)
        if text.startswith("/") and "\n" not in text:
            return self._command(text, session, conversation)
        if text.lower() in ("exit", "quit", "bye"):
            diagnostics.note(f'/exit or Ctrl-D leaves; """{text}""" asks the model')
            return _Next.GO_ON
        return self._answer(text, session, conversation)

    def _retry(self, session: ModelSession, conversation: Conversation) -> _Next:
        if self._unanswered:
            return self._answer(self._unanswered, session, conversation)
        diagnostics.note("every question has its answer; arrow up brings back what was typed")
        return _Next.GO_ON

    def _answer(self, question: str, session: ModelSession, conversation: Conversation) -> _Next:
        before, left_out = session.npu_use(), conversation.left_out
        wrap = WordWrap()
        stop = StopSwitch()
        self._unanswered = ""
        try:
            with QuietTerminal(), stop:
                try:
                    answer = conversation.ask(
                        question, lambda piece: output.emit(wrap.push(piece), end=""), stop
                    )
                finally:
                    # What was streamed so far has no line end yet.
                    output.emit(wrap.finish())
        except KeyboardInterrupt:
            if stop():
                raise _StoppedTwice from None
            raise
        except NoDeviceError as error:
            self._unanswered = question
            diagnostics.report(NoDeviceError(error.what, why=error.why))
            return self._lost()
        except UnhealthyError as error:
            self._unanswered = question
            diagnostics.report(error)
            return self._lost()
        except OrkError as error:
            diagnostics.report(error)
            return _Next.GO_ON
        self._answers.append(answer)
        if note := end_note(answer):
            diagnostics.note(note)
        if note := left_out_note(answer, conversation.left_out - left_out):
            diagnostics.note(note)
        if answer.stop_reason == "interrupted" and not answer.generated_tokens:
            self._unanswered = question
        diagnostics.note(stats_line(answer, session.npu_use().since(before), session.source))
        return _Next.GO_ON

    def _lost(self) -> _Next:
        diagnostics.note(
            "opening the NPU again; conversation and question are kept: Enter or /retry asks it again"
        )
        return _Next.REOPEN

    def _command(self, line: str, session: ModelSession, conversation: Conversation) -> _Next:
        name, _, rest = line.partition(" ")
        name, rest = name.lower(), rest.strip()
        if name in _LEAVING:
            return _Next.LEAVE
        if name == "/retry":
            return self._retry(session, conversation)
        if name == "/help":
            for command, meaning in _HELP:
                output.emit(f"{command:<11} {meaning}")
        elif name in ("/reset", "/clear"):
            conversation.reset()
            self._unanswered = ""
            output.emit("new conversation")
        elif name == "/save":
            output.emit(self._kept.save(rest, session, conversation))
        elif name == "/load":
            output.emit(self._kept.load(rest, session, conversation))
            self._unanswered = ""
        elif name == "/stats":
            for key, value in stats_rows(session, conversation, self._answers):
                output.emit(f"{key:<10} {value}")
        else:
            near = difflib.get_close_matches(name, _COMMANDS, n=1)
            hint = f"did you mean {near[0]}?" if near else "/help lists the commands"
            diagnostics.note(f"no command {name}; {hint}")
        return _Next.GO_ON


_HELP = (
    ("/help", "these lines"),
    ("/reset", "start a new conversation"),
    ("/retry", "ask the question again that got no answer; so does Enter"),
    ("/save FILE", "keep the conversation in a file; without FILE in that of --session"),
    ("/load FILE", "go on with a conversation kept in a file"),
    ("/stats", "model, context fill, totals and what the figures mean"),
    ("/exit", "leave; so does Ctrl-D"),
    ("Ctrl-C", "stops an answer, or clears the line"),
    ('"""', "begins and ends a question of several lines; a paste is one question"),
    ("Ctrl-R", "searches earlier questions"),
    ("arrow up", 'earlier questions; `chat_history = "off"` in config.toml keeps none'),
)


_COMMANDS = tuple(command.split()[0] for command, _ in _HELP if command.startswith("/"))
_WITH_A_FILE = ("/save", "/load")


def _is_command(line: str) -> bool:
    """Whether a line among pasted ones is a command: its whole text, or a command that takes a file."""
    words = line.strip().lower().split()
    if len(words) > 1 and words[0] not in _WITH_A_FILE:
        return False
    return words[:1] != [] and words[0] in {*_COMMANDS, *_LEAVING, "/clear"}


def _greet(session: ModelSession, conversation: Conversation) -> None:
    diagnostics.note(
        f"{session.model}, {session.quant}, on {session.source}; loaded in {session.load_s:.2f} s. /help lists the commands."
    )
    if turns := sum(message["role"] == "user" for message in conversation.messages):
        diagnostics.note(
            f"the conversation goes on after {turns} {'question' if turns == 1 else 'questions'}"
        )
