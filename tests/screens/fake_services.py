"""Services for screens: the guarded operations of the simulated board in this process, a model of a few words."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from orkbench_tui.errors import NoDeviceError, OrkError
from orkbench_tui.ops.doctor.readings import DoctorReadings, read_board
from orkbench_tui.ops.guard.board import GuardedBoard
from orkbench_tui.runner.bench.cases import Case
from orkbench_tui.runner.bench.ledger import Ledger
from orkbench_tui.runner.bench.record import ModelFacts, Row
from orkbench_tui.screens.services import Aside, ChatSession, Hear, HoldNpu, Reply, Services
from orkbench_tui.sim.inprocess import InProcessBoard
from tests.ops.fake_board import FakeBoard
from tests.ops.guard.guarded_sim import SimEffects, guarded
from tests.ops.kernel.kernel_scene import Scene


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


def _own_row(speed: float, taken_unix_s: float) -> Row:
    model = ModelFacts("tiny", "tiny.gguf", "", "", "w8a8", "f16", "npu", 1000, 2000)
    case = Case(512, 0, 512, 512, 4)
    return Row(case, model, "host", (speed,), True, False, None, ("cold",), "0.1", "abc1234", taken_unix_s, 4)


def with_boot_disk(services: Services, folder: Path) -> Services:
    """The same, for a board whose boot disk can be read."""
    scene = Scene(folder)

    @contextmanager
    def opened(hear: Hear, aside: Aside) -> Iterator[tuple[HoldNpu, GuardedBoard]]:
        yield lambda: None, scene.guarded()

    return dataclasses.replace(services, guarded=opened)


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

    def keep_comparison(self) -> None:
        """Three pairs of two arms in the ledger, the second a tenth faster."""
        rows = [
            dataclasses.replace(_own_row(speed, 60.0 * (2 * pair + at)), arm=name)
            for pair, speeds in enumerate([(100.0, 110.0), (101.0, 111.0), (99.0, 109.0)])
            for at, (name, speed) in enumerate(zip(("w8a8", "w8a8-rot"), speeds, strict=True))
        ]
        Ledger(self.folder / "results.jsonl").append(rows)

    def _preflight(self) -> DoctorReadings:
        self.preflights += 1
        if self.files.gone:
            raise NoDeviceError("the board does not answer", do="look at its cable")
        return read_board(self.files, pause=lambda seconds: None)
