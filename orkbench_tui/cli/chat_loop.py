"""The chat at a terminal: a prompt, streamed answers, slash commands, Ctrl-C that stops an answer only."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from enum import Enum

from orkbench_tui.cli import diagnostics, output
from orkbench_tui.cli.answer_report import stats_line
from orkbench_tui.cli.model_session import ModelSession, NpuUse
from orkbench_tui.cli.stop_switch import StopSwitch
from orkbench_tui.errors import NoDeviceError, OrkError, UnhealthyError
from orkbench_tui.runner.chat import Answer, Conversation

__all__ = ["ChatLoop"]

PROMPT, CONTINUATION, BLOCK = ">>> ", "... ", '"""'


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
        read_line: Callable[[str], str],
    ) -> None:
        self._open_session = open_session
        self._start = start
        self._read_line = read_line
        self._conversation: Conversation | None = None
        self._answers: list[Answer] = []

    def run(self) -> None:
        """Talk until the user leaves."""
        while True:
            with self._open_session() as session:
                conversation = self._conversation
                if conversation is None:
                    conversation = self._conversation = self._start(session)
                    _greet(session)
                else:
                    conversation.attach(session.engine)
                if self._talk(session, conversation) is _Next.LEAVE:
                    return

    def _talk(self, session: ModelSession, conversation: Conversation) -> _Next:
        armed = False
        while True:
            try:
                line = self._read_block()
            except EOFError:
                output.emit("")
                return _Next.LEAVE
            except KeyboardInterrupt:
                output.emit("")
                if armed:
                    return _Next.LEAVE
                armed = True
                diagnostics.note("Ctrl-C again or Ctrl-D leaves; /help lists the commands")
                continue
            armed = False
            outcome = self._handle(line.strip(), session, conversation)
            if outcome is not _Next.GO_ON:
                return outcome

    def _read_block(self) -> str:
        line = self._read_line(PROMPT)
        if not line.lstrip().startswith(BLOCK):
            return line
        text = line.lstrip()[len(BLOCK) :]
        while BLOCK not in text:
            text += "\n" + self._read_line(CONTINUATION)
        return text.partition(BLOCK)[0]

    def _handle(self, line: str, session: ModelSession, conversation: Conversation) -> _Next:
        if not line:
            return _Next.GO_ON
        if line.startswith("/"):
            return self._command(line, session, conversation)
        return self._answer(line, session, conversation)

    def _answer(self, question: str, session: ModelSession, conversation: Conversation) -> _Next:
        before = session.npu_use()
        try:
            with StopSwitch() as stop:
                answer = conversation.ask(question, lambda piece: output.emit(piece, end=""), stop)
        except OrkError as error:
            # What was streamed so far has no line end yet.
            output.emit("")
            diagnostics.report(error)
            if isinstance(error, NoDeviceError | UnhealthyError):
                diagnostics.note("the conversation is kept; opening the NPU again")
                return _Next.REOPEN
            return _Next.GO_ON
        self._answers.append(answer)
        output.emit("")
        diagnostics.note(stats_line(answer, session.npu_use().since(before), session.source))
        return _Next.GO_ON

    def _command(self, line: str, session: ModelSession, conversation: Conversation) -> _Next:
        name = line.split()[0]
        if name in ("/exit", "/quit", "/bye"):
            return _Next.LEAVE
        if name == "/help":
            for command, meaning in _HELP:
                output.emit(f"{command:<10} {meaning}")
        elif name in ("/reset", "/clear"):
            conversation.reset()
            output.emit("new conversation")
        elif name == "/stats":
            self._show_stats(session, conversation)
        else:
            near = difflib.get_close_matches(name, [command for command, _ in _HELP], n=1)
            hint = f"did you mean {near[0]}?" if near else "/help lists the commands"
            diagnostics.note(f"no command {name}; {hint}")
        return _Next.GO_ON

    def _show_stats(self, session: ModelSession, conversation: Conversation) -> None:
        use: NpuUse = session.npu_use()
        answers = self._answers
        rows = (
            ("model", f"{session.model}, {session.quant}"),
            ("target", session.source),
            ("load", f"{session.load_s:.2f} s (host)"),
            ("context", f"{conversation.context_used} of {conversation.context_size} tokens"),
            ("answers", f"{len(answers)}"),
            ("prompt", f"{sum(a.prompt_tokens for a in answers)} tokens"),
            ("reused", f"{sum(a.reused_tokens for a in answers)} tokens"),
            ("generated", f"{sum(a.generated_tokens for a in answers)} tokens"),
            ("NPU", f"{use.submits} jobs, {use.tasks} tasks"),
        )
        for key, value in rows:
            output.emit(f"{key:<10} {value}")


_HELP = (
    ("/help", "these lines"),
    ("/reset", "start a new conversation"),
    ("/stats", "model, context fill and totals"),
    ("/exit", "leave; so does Ctrl-D"),
    ("Ctrl-C", "stops an answer"),
    ('"""', "begins and ends a question of several lines"),
)


def _greet(session: ModelSession) -> None:
    diagnostics.note(
        f"{session.model}, {session.quant}, on {session.source}; loaded in {session.load_s:.2f} s. /help lists the commands."
    )
    # Line editing where the interpreter has it.
    with suppress(ImportError):
        importlib.import_module("readline")
