"""Power or the process lost before and after every effect of installing a kernel, keeping it and going back.

Three losses at each point: only the process; everything that was not synced; the data of files that were not synced.
After each the board must boot, the old kernel or the new one, and ``resume`` must end clean.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from orkbench_tui.errors import OrkError
from orkbench_tui.ops.files import BoardFiles, Reading
from orkbench_tui.ops.guard import engine
from orkbench_tui.ops.guard.board import GuardedBoard
from orkbench_tui.ops.guard.declaration import Operation
from orkbench_tui.ops.guard.journal import interrupted
from orkbench_tui.ops.kernel.deploy import DEPLOY
from orkbench_tui.ops.kernel.going_back import MARK_GOOD, ROLLBACK
from tests.ops.guard.guarded_sim import Killed, SimEffects
from tests.ops.kernel.crash_disk import LOSSES
from tests.ops.kernel.kernel_scene import Scene

OPERATIONS: dict[str, Operation] = {
    "deploy": DEPLOY,
    "deploy, failing": DEPLOY,
    "rollback": ROLLBACK,
    "mark-good": MARK_GOOD,
}
BOARDS = ("rock-5b", "orange-pi-5-plus")


@dataclass(frozen=True)
class Point:
    """``moment`` is before, after or torn (in the middle of a journal line) of the effect numbered ``effect``."""

    board: str
    operation: str
    moment: str
    loss: str
    effect: int


@dataclass
class _Rebooted(BoardFiles):
    """A board's files with other values for some: after a boot."""

    files: BoardFiles
    values: dict[str, str] = field(default_factory=dict)

    @property
    def label(self) -> str:
        return self.files.label

    def read(self, path: str) -> Reading:
        found = self.files.read(path)
        return replace(found, data=self.values[path].encode()) if path in self.values else found

    def read_many(self, paths: list[str]) -> list[Reading]:
        return [self.read(path) for path in paths]

    def list(self, path: str) -> list[str]:
        return self.files.list(path)

    def readlink(self, path: str) -> str | None:
        return self.files.readlink(path)

    def kernel_log(self, after_sequence: int = -1) -> list[bytes]:
        return self.files.kernel_log(after_sequence)

    def close(self) -> None:
        return None


def booted(scene: Scene, effects: SimEffects | None = None, *, boot: int = 1) -> GuardedBoard:
    """The scene's board after it has booted what its disk holds."""
    board = scene.guarded(effects)
    release = scene.boot().release or scene.stock
    values = {
        "/proc/sys/kernel/osrelease": f"{release}\n",
        "/proc/sys/kernel/random/boot_id": f"00000000-0000-4000-8000-{boot:012}\n",
    }
    return replace(board, files=_Rebooted(board.files, values))


def _words(scene: Scene, name: str) -> dict[str, str]:
    if name.startswith("deploy"):
        return {"from": str(scene.kernel)}
    return {"matmuls": "no"} if name == "mark-good" else {}


def _start(folder: Path, board: str, name: str) -> Scene:
    from orkbench_tui.ops.kernel.artefacts import opened

    scene = Scene(folder, board)
    if "uInitrd" not in "".join(path.name for path in scene.kernel.iterdir()):
        with opened([scene.kernel]) as complete:
            wrapped = next(complete.glob("uInitrd-*"))
            (scene.kernel / wrapped.name).write_bytes(wrapped.read_bytes())
    if not name.startswith("deploy"):
        guarded = scene.guarded()
        assert engine.run(guarded, DEPLOY.plan(guarded, _words(scene, "deploy"))).ok
    return scene


def _run(scene: Scene, name: str, effects: SimEffects) -> bool:
    """Whether the process lived to the end."""
    first = name.startswith("deploy")
    board = scene.guarded(effects) if first else booted(scene, effects)
    try:
        plan = OPERATIONS[name].plan(board, _words(scene, name))
        if name == "deploy, failing":
            # The last step finds another kernel than the plan says, so everything is taken back.
            plan = replace(plan, steps=(*plan.steps[:-1], replace(plan.steps[-1], after="another")))
        engine.run(board, plan)
    except Killed:
        return False
    return True


def count_effects(folder: Path, board: str, name: str) -> int:
    scene = _start(folder, board, name)
    effects = SimEffects(scene.board)
    assert _run(scene, name, effects)
    scene.close()
    return effects.count


def points(folder: Path) -> Iterator[Point]:
    """Every point there is; ``folder`` is for the counting runs."""
    for board in BOARDS:
        for number, name in enumerate(OPERATIONS):
            for effect in range(count_effects(folder / f"{board}{number}", board, name)):
                for loss in LOSSES:
                    yield Point(board, name, "before", loss, effect)
                    yield Point(board, name, "after", loss, effect)
                yield Point(board, name, "torn", LOSSES[0], effect)


def check(folder: Path, point: Point) -> None:
    """Lose power or the process at the point; the board boots, resume ends clean, nothing is left over."""
    scene = _start(folder, point.board, point.operation)
    try:
        effects = SimEffects(
            scene.board, stop_at=point.effect, after=point.moment == "after", torn=point.moment == "torn"
        )
        assert not _run(scene, point.operation, effects), point
        scene.disk.lose_power(point.loss)
        _boots(scene, point)
        same_boot = point.loss == "nothing" and point.operation.startswith("deploy")
        # The next process dies at its third effect too, the one after lives.
        try:
            engine.resume(_again(scene, SimEffects(scene.board, stop_at=2), same_boot=same_boot))
        except Killed:
            scene.disk.lose_power(point.loss)
            _boots(scene, point)
        outcomes = engine.resume(_again(scene, None, same_boot=same_boot))
        assert all(outcome.kind != engine.INCONSISTENT for outcome in outcomes), (point, outcomes)
        assert interrupted(scene.state, "sim") == [], point
        _boots(scene, point)
        left = [name for name in scene.disk.names() if ".ork-" in name]
        assert left == [], (point, left)
        _still_works(scene, point)
    finally:
        scene.close()


def _again(scene: Scene, effects: SimEffects | None, *, same_boot: bool) -> GuardedBoard:
    return scene.guarded(effects) if same_boot else booted(scene, effects, boot=2)


def _boots(scene: Scene, point: Point) -> None:
    found = scene.boot()
    assert not found.fault, (point, found)
    assert found.release in (scene.stock, scene.release), (point, found)


def _still_works(scene: Scene, point: Point) -> None:
    """Going back works from wherever this ended, where there is something to go back to."""
    board = booted(scene, boot=3)
    plan = ROLLBACK.plan(board, {"to": "stock"})
    if plan.refusals:
        assert plan.refusals[0].what == "the kernel before is known", (point, plan.refusals)
    else:
        try:
            outcome = engine.run(board, plan) if plan.steps else None
        except OrkError as error:
            raise AssertionError((point, error)) from error
        assert outcome is None or outcome.ok, (point, outcome)
    assert scene.boot().release == scene.stock, point
