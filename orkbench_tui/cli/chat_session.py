"""``--session FILE``, ``/save`` and ``/load``: a conversation kept in a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

from orkbench_tui.cli import diagnostics
from orkbench_tui.errors import OrkError, UsageError

if TYPE_CHECKING:
    from orkbench_tui.cli.model_session import ModelSession
    from orkbench_tui.runner.chat import Conversation
    from orkbench_tui.runner.engine import Engine
    from orkbench_tui.runner.prompt_cache import Binding

__all__ = ["ChatSession"]


class ChatSession:
    """``path`` None: only files named in ``/save`` and ``/load``."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path

    def begin(self, session: ModelSession, conversation: Conversation) -> None:
        """Go on with the conversation in the file, where there is one already.

        Raises:
            OrkError: the file is another model's, damaged or none of ours.
        """
        from orkbench_tui.runner.prompt_cache import nothing_kept

        if self._path is None or nothing_kept(self._path):
            return
        own = [m["content"] for m in conversation.messages]
        self._load(self._path, session, conversation)
        told = [m["content"] for m in conversation.messages[:1] if m["role"] == "system"]
        if own and own != told:
            diagnostics.note(f"the system text of {self._path} is kept; --system is for a new one")

    def load(self, name: str, session: ModelSession, conversation: Conversation) -> str:
        """``/load NAME``; the line to show."""
        path = self._named(name, "/load FILE")
        self._load(path, session, conversation)
        return f"{len(conversation.messages)} messages from {path}"

    def save(self, name: str, session: ModelSession, conversation: Conversation) -> str:
        """``/save NAME``; the line to show."""
        path = self._named(name, "/save FILE")
        self._save(path, session, conversation)
        return f"{len(conversation.messages)} messages in {path}"

    def end(self, session: ModelSession, conversation: Conversation) -> None:
        """Keep the conversation in the file given at the start. That it fails is told and nothing else."""
        if self._path is None or not conversation.messages:
            return
        try:
            self._save(self._path, session, conversation)
        except OrkError as error:
            diagnostics.report(error)

    def _named(self, name: str, usage: str) -> Path:
        if name:
            return Path(name).expanduser()
        if self._path is None:
            raise UsageError(f"{usage}: the file is missing")
        return self._path

    def _save(self, path: Path, session: ModelSession, conversation: Conversation) -> None:
        from orkbench_tui.runner.chat_file import save_chat

        save_chat(path, _engine(session), conversation, _binding(session))

    def _load(self, path: Path, session: ModelSession, conversation: Conversation) -> None:
        from orkbench_tui.runner.chat_file import load_chat

        load_chat(path, _engine(session), conversation, _binding(session))


def _engine(session: ModelSession) -> Engine:
    return cast("Engine", session.engine)


def _binding(session: ModelSession) -> Binding:
    from orkbench_tui.runner.prompt_cache import binding_of

    return binding_of(_engine(session), session.model_sha256(), session.quant)
