"""What ``ork-tui`` gives its screens: guarded operations, chat, preflight; the same code as the commands'."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from orkbench_tui import locations
from orkbench_tui.cli import diagnostics
from orkbench_tui.errors import NoDeviceError
from orkbench_tui.settings import Settings

if TYPE_CHECKING:
    from orkbench_tui.cli.model_session import ModelSession
    from orkbench_tui.ops.doctor.readings import DoctorReadings
    from orkbench_tui.ops.guard.board import GuardedBoard
    from orkbench_tui.runner.chat import Conversation
    from orkbench_tui.screens.services import Aside, ChatSession, Hear, HoldNpu, Reply, Services

__all__ = ["screen_services"]


def screen_services(settings: Settings, operations_lock: Path) -> Services:
    """Services for the board ``settings`` name; ``operations_lock`` is its ``Target``'s."""
    from orkbench_tui.cli.bench import ledger_file
    from orkbench_tui.ops.guard.unfinished import unfinished_lines
    from orkbench_tui.screens.services import Services

    def chat(model: str, hear: Hear, before: ChatSession | None) -> AbstractContextManager[_Chat]:
        return _open_chat(settings.with_flags(model=model), hear, before)

    return Services(
        guarded=lambda hear, aside: _guarded(settings.target, hear, aside),
        chat=chat,
        preflight=lambda: _preflight(settings),
        state_dir=locations.state_dir(),
        models_dir=locations.models_dir(),
        packs_dir=locations.packs_dir(),
        ledger_file=ledger_file(),
        default_model=settings.model,
        unfinished=lambda: unfinished_lines(locations.state_dir(), settings.target, operations_lock),
    )


@contextmanager
def _guarded(target: str, hear: Hear, aside: Aside) -> Iterator[tuple[HoldNpu, GuardedBoard]]:
    from orkbench_tui.cli.guarded import guarded
    from orkbench_tui.ops.guard.as_root import asking_aside

    _require_board(target)
    with diagnostics.told_to(hear), asking_aside(aside), guarded(target) as (opened, board):
        yield opened.hold_npu, board


def _require_board(target: str) -> None:
    """Screens look for a board that went away; they start no simulated one by themselves.

    Raises:
        NoDeviceError: the simulated board of these screens has stopped.
    """
    from orkbench_tui.target import simulator

    if target == "sim" and simulator().status() is None:
        raise NoDeviceError("the simulated board stopped", do="`ork sim start` brings it back")


@dataclass(slots=True)
class _Chat:
    """``screens.services.ChatSession`` over the session of ``ork run chat``."""

    session: ModelSession
    conversation: Conversation

    @property
    def title(self) -> str:
        session = self.session
        return f"{session.model}, {session.quant}, on {session.source}"

    @property
    def context_used(self) -> int:
        return self.conversation.context_used

    @property
    def context_size(self) -> int:
        return self.conversation.context_size

    def ask(self, question: str, on_text: Hear, should_stop: Callable[[], bool]) -> Reply:
        from orkbench_tui.cli.answer_report import end_note, stats_line
        from orkbench_tui.screens.services import Reply

        before = self.session.npu_use()
        answer = self.conversation.ask(question, on_text, should_stop)
        use = self.session.npu_use().since(before)
        return Reply(stats_line(answer, use, self.session.source), end_note(answer))

    def reset(self) -> None:
        self.conversation.reset()


@contextmanager
def _open_chat(settings: Settings, hear: Hear, before: ChatSession | None) -> Iterator[_Chat]:
    from orkbench_tui.cli import model_session
    from orkbench_tui.cli.run import DEFAULT_MAX_TOKENS
    from orkbench_tui.runner.chat import Conversation, GenerationLimits
    from orkbench_tui.runner.sampler import Sampler, Sampling

    _require_board(settings.target)
    with diagnostics.told_to(hear), model_session.open_session(settings) as session:
        if isinstance(before, _Chat):
            before.conversation.attach(session.engine)
            yield _Chat(session, before.conversation)
            return
        conversation = Conversation(
            session.engine,
            session.tokenizer,
            session.template,
            Sampler(Sampling.of(session.metadata)),
            limits=GenerationLimits(DEFAULT_MAX_TOKENS),
        )
        yield _Chat(session, conversation)


def _preflight(settings: Settings) -> DoctorReadings:
    """A connection of its own, so that the live samples go on meanwhile."""
    from orkbench_tui.cli.board_diagnose import board_preflight
    from orkbench_tui.target import connect_files

    _require_board(settings.target)
    files = connect_files(settings)
    try:
        return board_preflight(files)
    finally:
        files.close()
