"""What screens may ask for beyond samples. The command that starts them gives these; tests give their own.

Screens never open a board, a model or an NPU by themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from orkbench_tui.ops.doctor.readings import DoctorReadings
    from orkbench_tui.ops.guard.board import GuardedBoard

__all__ = ["Aside", "ChatSession", "Hear", "HoldNpu", "Reply", "Services"]

Hear = Callable[[str], None]
"""Takes one line of progress; called from worker threads."""

Aside = Callable[[Callable[[], None]], None]
"""Runs something while the screen has given the terminal back: sudo asks there for its password."""

HoldNpu = Callable[[], None]
"""Keeps other programs off the NPU until the board is closed; raises BusyError."""


@dataclass(frozen=True, slots=True)
class Reply:
    """How an answer ended: the line of figures, and a note where it ended early ("" otherwise)."""

    figures: str
    note: str


class ChatSession(Protocol):
    """A model that answers; the conversation is kept between questions."""

    @property
    def title(self) -> str:
        """Model, arithmetic and board in one line."""

    @property
    def context_used(self) -> int: ...

    @property
    def context_size(self) -> int: ...

    def ask(self, question: str, on_text: Hear, should_stop: Callable[[], bool]) -> Reply:
        """Answer; text comes in pieces. Raises OrkError; the conversation stays as it was then."""

    def reset(self) -> None:
        """Begin a new conversation."""


@dataclass(frozen=True, slots=True)
class Services:
    """``guarded`` opens the board for guarded operations; ``chat`` a model by name or path (pulling or packing it
    first where needed, which ``Hear`` is told), going on with an earlier session's conversation where one is given; ``preflight`` reads what the doctor judges; ``state_dir`` holds the
    journals of operations; ``unfinished`` gives a line for each operation on this board that was interrupted.
    """

    guarded: Callable[[Hear, Aside], AbstractContextManager[tuple[HoldNpu, GuardedBoard]]]
    chat: Callable[[str, Hear, ChatSession | None], AbstractContextManager[ChatSession]]
    preflight: Callable[[], DoctorReadings]
    state_dir: Path
    models_dir: Path
    packs_dir: Path
    ledger_file: Path
    default_model: str
    unfinished: Callable[[], list[str]] = list
