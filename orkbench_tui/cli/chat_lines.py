"""``ork run chat --json-lines``: questions as lines of JSON in, events as lines of JSON out, for other programs.

A line is a JSON string (a question), ``{"question": "..."}`` or ``{"command": "reset"}``. Each event is one
document of schema ``ork.run.chat.event/1``: ``ready``, ``text``, ``answer``, ``reset`` and ``error``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from orkbench_tui.cli import output
from orkbench_tui.cli.answer_report import answer_data
from orkbench_tui.cli.input import PROMPT_BYTES, standard_lines
from orkbench_tui.cli.stop_switch import StopSwitch
from orkbench_tui.errors import ExitCode, NoDeviceError, OrkError, UsageError
from orkbench_tui.user_files import decoded

if TYPE_CHECKING:
    from orkbench_tui.cli.model_session import ModelSession
    from orkbench_tui.runner.chat import Conversation

__all__ = ["as_line", "converse", "lines_of_input"]

SCHEMA = "run.chat.event"
_COMMANDS = ("reset",)


def lines_of_input() -> Iterator[bytes]:
    """Lines of standard input as they come, without empty ones.

    Raises:
        UsageError: a line longer than a question may be, or no standard input.
    """
    lines = standard_lines(PROMPT_BYTES, instead="give the question with --once")
    return (line for line in lines if line.strip())


def as_line(question: str) -> bytes:
    """The line that asks ``question``."""
    return json.dumps(question).encode()


def converse(session: ModelSession, conversation: Conversation, lines: Iterator[bytes]) -> ExitCode:
    """Answer every line; the exit code of the first that could not be answered, else OK.

    Raises:
        KeyboardInterrupt: an answer was interrupted; its event says how far it came.
        NoDeviceError: the NPU went away, after an event that says so.
    """
    _emit(
        session,
        "ready",
        model=session.model,
        target=session.source,
        quant=session.quant,
        context=session.engine.context,
        messages=len(conversation.messages),
    )
    worst = ExitCode.OK
    for number, line in enumerate(lines, 1):
        try:
            _one(session, conversation, number, line)
        except OrkError as error:
            _emit(session, "error", line=number, message=error.line(), exit_code=int(error.exit_code))
            if isinstance(error, NoDeviceError):
                raise
            worst = worst or error.exit_code
    return worst


def _one(session: ModelSession, conversation: Conversation, number: int, line: bytes) -> None:
    question = _question(number, line)
    if question is None:
        conversation.reset()
        _emit(session, "reset", line=number)
        return
    before, left_out = session.npu_use(), conversation.left_out
    with StopSwitch() as halt:
        answer = conversation.ask(question, lambda text: _emit(session, "text", line=number, text=text), halt)
    figures = answer_data(answer, session.npu_use().since(before), session)
    _emit(
        session,
        "answer",
        line=number,
        **figures,
        reused_tokens=answer.reused_tokens,
        messages_left_out=conversation.left_out - left_out,
        shifts=answer.shifts,
    )
    if answer.stop_reason == "interrupted":
        raise KeyboardInterrupt


def _question(number: int, line: bytes) -> str | None:
    """The question of a line, or None for the command to start anew."""
    name = f"line {number}"
    try:
        value = json.loads(decoded(line, name))
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{name} is not JSON", why=str(error), do='write a question as "text"') from None
    if isinstance(value, dict) and set(value) == {"command"}:
        if value["command"] in _COMMANDS:
            return None
        raise UsageError(f"{name} has an unknown command", why=f"known: {', '.join(_COMMANDS)}")
    text = value.get("question") if isinstance(value, dict) and set(value) == {"question"} else value
    if not isinstance(text, str) or not text.strip():
        raise UsageError(f"{name} is no question", do='write "text" or {"question": "text"}')
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise UsageError(f"{name} holds half a surrogate pair", do="give whole characters") from None
    return text


def _emit(session: ModelSession, event: str, **data: Any) -> None:
    output.emit_json(SCHEMA, {"event": event, **data}, source=session.source, line=True)
