"""``--prompt-cache FILE``: a prompt's keys and values taken from a file as far as they fit, and kept there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from orkbench_tui.cli.model_session import ModelSession
    from orkbench_tui.runner.chat import Conversation
    from orkbench_tui.runner.engine import Engine

__all__ = ["PromptFile", "conversation_kept"]


class PromptFile:
    """``path`` None: nothing is loaded or kept."""

    def __init__(self, session: ModelSession, path: Path | None) -> None:
        self._session = session
        self._path = path
        self._loaded: list[int] = []

    @property
    def _engine(self) -> Engine:
        return cast("Engine", self._session.engine)

    def load(self) -> list[int]:
        """The tokens the engine holds now; none where there is no file yet, or an empty one.

        Raises:
            InvalidFileError, RefusedError: another kind of file, damaged, or of another model.
        """
        from orkbench_tui.runner.prompt_cache import binding_of, load_prompt, nothing_kept

        if self._path is None or nothing_kept(self._path):
            return []
        binding = binding_of(self._engine, self._session.model_sha256(), self._session.quant)
        self._loaded = load_prompt(self._path, self._engine, binding)
        return self._loaded

    def load_for(self, ids: Sequence[int]) -> None:
        """Load what begins ``ids``; one token is always left to compute, for its logits."""
        from orkbench_tui.runner.prompt_cache import common_prefix

        self._engine.rewind(min(common_prefix(self.load(), ids), max(0, len(ids) - 1)))

    def save(self, tokens: Sequence[int]) -> None:
        """Keep what the engine holds, which came from ``tokens``, unless that is what was loaded."""
        from orkbench_tui.runner.prompt_cache import binding_of, save_prompt

        held = list(tokens[: self._engine.position])
        # What an answer that broke off has left in the engine is not known.
        if self._path is None or not held or len(held) != self._engine.position or held == self._loaded:
            return
        binding = binding_of(self._engine, self._session.model_sha256(), self._session.quant)
        save_prompt(self._path, self._engine, held, binding)


@contextmanager
def conversation_kept(session: ModelSession, path: Path | None, conversation: Conversation) -> Iterator[None]:
    """A conversation that begins with what ``path`` holds, and whose prompt stands there afterwards."""
    file = PromptFile(session, path)
    if path is not None:
        conversation.hold(file.load())
    yield
    file.save(conversation.held)
