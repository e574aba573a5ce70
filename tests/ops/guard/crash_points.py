"""The process killed before and after every effect of an operation, and in the middle of every journal line."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from orkbench_tui.ops.guard import engine
from orkbench_tui.ops.guard.journal import interrupted
from orkbench_tui.ops.operations.registry import OPERATIONS
from orkbench_tui.sim.inprocess import InProcessBoard
from tests.ops.guard.guarded_sim import Killed, SimEffects, guarded, nodes

WORDS: tuple[tuple[str, dict[str, str]], ...] = (
    ("drop-caches", {"level": "3"}),
    ("governors", {"mode": "performance"}),
    ("governors", {"mode": "restore"}),
    ("irq-affinity", {"mode": "little"}),
    ("irq-affinity", {"mode": "restore"}),
    ("drain", {}),
    ("reset", {}),
    ("reboot", {}),
)


@dataclass(frozen=True)
class Point:
    """``kind`` is before, after, torn, or the same of an undo (``undo-``) or of the resume (``resume-``)."""

    operation: str
    words: tuple[tuple[str, str], ...]
    kind: str
    effect: int


@dataclass
class _Scene:
    """A board in the state the operation starts from."""

    board: InProcessBoard
    state: Path

    def prepared(self, name: str, words: dict[str, str]) -> None:
        if words.get("mode") == "restore":
            first = "performance" if name == "governors" else "little"
            board = guarded(self.board, self.state)
            assert engine.run(board, OPERATIONS[name].plan(board, {"mode": first})).ok

    def effects(self, **options: object) -> SimEffects:
        effects = SimEffects(self.board, **options)  # type: ignore[arg-type]
        effects.on_terminate = self._end_holders
        return effects

    def _end_holders(self, pid: int) -> None:
        for file in list(self.board.kernel.files):
            self.board.kernel.close(file)


def _fails(name: str, effects: SimEffects) -> None:
    """Make the last writable step fail, so that everything before it is taken back."""
    last = {
        "governors": "/sys/devices/system/cpu/cpufreq/policy6/scaling_governor",
        "irq-affinity": "/proc/irq/37/smp_affinity_list",
    }
    effects.fail_writes_to = last.get(name, "")


def _start(folder: Path, name: str, words: dict[str, str]) -> _Scene:
    scene = _Scene(InProcessBoard(), folder)
    scene.prepared(name, words)
    if name == "drain":
        scene.board.device()
    return scene


def _run(scene: _Scene, name: str, words: dict[str, str], effects: SimEffects) -> bool:
    """Whether the process lived to the end."""
    board = guarded(scene.board, scene.state, effects)
    try:
        engine.run(board, OPERATIONS[name].plan(board, words))
    except Killed:
        return False
    return True


def count_effects(folder: Path, name: str, words: dict[str, str], *, failing: bool) -> int:
    scene = _start(folder, name, words)
    effects = scene.effects()
    if failing:
        _fails(name, effects)
    assert _run(scene, name, words, effects)
    scene.board.close()
    return effects.count


def points(folder: Path) -> Iterator[Point]:
    """Every point there is; ``folder`` is for the counting runs."""
    for index, (name, words) in enumerate(WORDS):
        frozen = tuple(words.items())
        total = count_effects(folder / f"plain{index}", name, words, failing=False)
        for effect in range(total):
            for kind in ("before", "after", "torn", "resume-before", "resume-after", "resume-torn"):
                yield Point(name, frozen, kind, effect)
        if name in ("governors", "irq-affinity"):
            total = count_effects(folder / f"failing{index}", name, words, failing=True)
            for effect in range(total):
                for kind in ("undo-before", "undo-after", "undo-torn"):
                    yield Point(name, frozen, kind, effect)


def check(folder: Path, point: Point) -> int:
    """Kill at the point, resume (killed as well where the point says so), and assert; how many resumes were killed."""
    name, words = point.operation, dict(point.words)
    scene = _start(folder, name, words)
    try:
        before = nodes(scene.board)
        kind = point.kind.rpartition("-")[2]
        effects = scene.effects(stop_at=point.effect, after=kind == "after", torn=kind == "torn")
        if point.kind.startswith("undo-"):
            _fails(name, effects)
        plan = OPERATIONS[name].plan(guarded(scene.board, folder), words)
        after = before | {step.subject: step.after for step in plan.steps if step.before is not None}
        _run(scene, name, words, effects)
        effects.fail_writes_to = ""
        killed = _killed_resumes(scene, kind) if point.kind.startswith("resume-") else 0
        outcomes = engine.resume(guarded(scene.board, folder))
        assert all(outcome.kind != engine.INCONSISTENT for outcome in outcomes), (point, outcomes)
        assert interrupted(folder, "sim") == [], point
        assert nodes(scene.board) in (before, after), (point, nodes(scene.board))
        assert engine.resume(guarded(scene.board, folder)) == [], point
        again = guarded(scene.board, folder)
        assert engine.run(again, OPERATIONS["drop-caches"].plan(again, {})).ok, point
        return killed
    finally:
        scene.board.close()


def _killed_resumes(scene: _Scene, kind: str) -> int:
    """Kill the resume at its first effect, the next one at its second, and so on, until one lives."""
    for effect in range(100):
        effects = scene.effects(stop_at=effect % 3, after=kind == "after", torn=kind == "torn")
        try:
            engine.resume(guarded(scene.board, scene.state, effects))
        except Killed:
            if effect < 6:
                continue
            return effect + 1
        return effect
    return 100
