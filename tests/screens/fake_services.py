"""Services for screens: the guarded operations of the simulated board in this process, a model of a few words."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from orkbench_tui.errors import NoDeviceError, OrkError
from orkbench_tui.ops.doctor.readings import DoctorReadings, read_board
from orkbench_tui.ops.guard.board import GuardedBoard
from orkbench_tui.screens.services import Aside, ChatSession, Hear, HoldNpu, Reply, Services
from orkbench_tui.sim.inprocess import InProcessBoard
from tests.ops.fake_board import FakeBoard
from tests.ops.guard.guarded_sim import SimEffects, guarded


class FakeChat:
    """Answers with the words of the question; ``gate`` holds it back before each word after the first."""

    title = "tiny, w8a8, on sim"
    context_size = 512

    def __init__(self) -> None:
        self.context_used = 0
        self.gate: threading.Event | None = None
        self.error: OrkError | None = None
        self.resets = 0

    def ask(self, question: str, on_text: Hear, should_stop: Callable[[], bool]) -> Reply:
        if self.error is not None:
            raise self.error
        for number, word in enumerate(question.split()):
            if number and self.gate is not None:
                self.gate.wait(10)
            if should_stop():
                return Reply("[host: in 3 tok 9.0/s, out 1 tok 5.0/s]", "[stopped]")
            on_text(("" if number == 0 else " ") + word)
            self.context_used += 1
        return Reply("[host: in 3 tok 9.0/s, out 4 tok 5.0/s]", "")

    def reset(self) -> None:
        self.resets += 1
        self.context_used = 0


class FakeWorld:
    """A board, its services, and what the screens asked of them."""

    def __init__(self, folder: Path) -> None:
        self.board = InProcessBoard()
        self.effects = SimEffects(self.board)
        self.folder = folder
        self.chat = FakeChat()
        self.opened: list[str] = []
        self.closed = 0
        self.kept: list[bool] = []
        self.chat_error: OrkError | None = None
        self.preflights = 0
        self.files = FakeBoard()

    def services(self) -> Services:
        return Services(
            guarded=self._guarded,
            chat=self._chat,
            preflight=self._preflight,
            state_dir=self.folder / "state",
            models_dir=self.folder / "models",
            packs_dir=self.folder / "packs",
            ledger_file=self.folder / "results.jsonl",
            default_model="tiny",
        )

    @contextmanager
    def _guarded(self, hear: Hear, aside: Aside) -> Iterator[tuple[HoldNpu, GuardedBoard]]:
        state = self.folder / "state"
        state.mkdir(exist_ok=True)
        yield lambda: None, guarded(self.board, state, self.effects)

    @contextmanager
    def _chat(self, model: str, hear: Hear, before: ChatSession | None) -> Iterator[FakeChat]:
        hear(f"loading {model}")
        if self.chat_error is not None:
            raise self.chat_error
        self.opened.append(model)
        self.kept.append(before is not None)
        try:
            yield self.chat
        finally:
            self.closed += 1

    def _preflight(self) -> DoctorReadings:
        self.preflights += 1
        if self.files.gone:
            raise NoDeviceError("the board does not answer", do="look at its cable")
        return read_board(self.files, pause=lambda seconds: None)
