"""A conversation in a file: its messages, and the keys and values of its prompt (a prompt cache with notes)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orkbench_tui.errors import InvalidFileError
from orkbench_tui.runner.chat import Conversation
from orkbench_tui.runner.chat_template import Message
from orkbench_tui.runner.prompt_cache import Binding, load_noted, save_prompt

if TYPE_CHECKING:
    from orkbench_tui.runner.engine import Engine

__all__ = ["load_chat", "save_chat"]

_ROLES = ("user", "assistant")


def save_chat(path: Path, engine: Engine, conversation: Conversation, binding: Binding) -> None:
    """Write ``conversation``, of which ``engine`` holds the prompt. Raises what ``save_prompt`` raises."""
    notes = {"messages": [dict(m) for m in conversation.messages], "left_out": conversation.left_out}
    # Before its first question the engine still holds an earlier conversation, which is not for this file;
    # and what an answer that broke off has left in it is not known. The messages are.
    held = list(conversation.held) if conversation.context_used else []
    if len(held) != engine.position:
        engine.rewind(0)
        conversation.hold(())
        held = []
    save_prompt(path, engine, held, binding, json.dumps(notes).encode())


def load_chat(path: Path, engine: Engine, conversation: Conversation, binding: Binding) -> None:
    """Go on with the conversation in ``path``; on any error ``conversation`` says what it did.

    Raises:
        UsageError, DeniedError: there is no regular file that can be read.
        InvalidFileError: no conversation, or damaged.
        RefusedError: of another model, arithmetic or cache type.
    """
    tokens, notes = load_noted(path, engine, binding, "kept conversation")
    try:
        messages, left_out = _read(path, notes)
    except InvalidFileError:
        # The engine holds the file's tokens now, which begin no prompt of this conversation.
        conversation.hold(())
        raise
    conversation.resume(messages, left_out, tokens)


def _read(path: Path, notes: bytes) -> tuple[list[Message], int]:
    if not notes:
        raise InvalidFileError(
            f"{path} holds a prompt and no conversation",
            do="take it with --prompt-cache, or name another file",
        )
    try:
        found = json.loads(notes)
        messages, left_out = found["messages"], found["left_out"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise _unreadable(path) from None
    if not isinstance(messages, list) or not all(_is_message(message) for message in messages):
        raise _unreadable(path)
    turns = messages[1:] if messages and messages[0]["role"] == "system" else messages
    alternate = all(turn["role"] == _ROLES[number % 2] for number, turn in enumerate(turns))
    if not alternate or len(turns) % 2 or type(left_out) is not int or not 0 <= left_out <= len(turns):
        raise _unreadable(path)
    return messages, left_out


def _is_message(message: Any) -> bool:
    return (
        isinstance(message, dict)
        and set(message) == {"role", "content"}
        and message["role"] in ("system", *_ROLES)
        and isinstance(message["content"], str)
    )


def _unreadable(path: Path) -> InvalidFileError:
    return InvalidFileError(
        f"the conversation in {path} cannot be read", why="it is not as this program writes it"
    )
