"""A guarded board over the simulated one, with a boot disk that can lose power."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

from orkbench_tui.ops.guard.board import GuardedBoard
from orkbench_tui.sim.board_variant import BoardVariant
from orkbench_tui.sim.boards.catalogue import profile_of
from orkbench_tui.sim.boot.disk import on_disk
from orkbench_tui.sim.boot.loader import Booted, boot
from orkbench_tui.sim.boot.rehearsal import make_rehearsal
from orkbench_tui.sim.inprocess import InProcessBoard
from tests.ops.guard.guarded_sim import SimEffects, guarded
from tests.ops.kernel.crash_disk import CrashDisk


def delivered(name: str) -> tuple[dict[str, bytes], dict[str, str]]:
    """What a board's disk holds as delivered."""
    profile = profile_of(name)
    files = {path: data for path, data in profile.files.items() if on_disk(path)}
    return files, {path: target for path, target in profile.links.items() if on_disk(path)}


@dataclass
class Scene:
    """A board, its disk, the folder of its journals, and built kernels to install."""

    folder: Path
    name: str = "rock-5b"
    patches: tuple[str, ...] = ("import-domain",)
    board: InProcessBoard = field(init=False)
    disk: CrashDisk = field(init=False)

    def __post_init__(self) -> None:
        self.board = InProcessBoard(variant=BoardVariant(board=self.name))
        self.disk = CrashDisk()
        self.disk.fill(*delivered(self.name))
        self.state = self.folder / "state"
        self.kernel = self.folder / "kernel"
        self.release = make_rehearsal(self.kernel, self.name, self.patches)
        self.stock = profile_of(self.name).release

    def guarded(self, effects: SimEffects | None = None) -> GuardedBoard:
        """``effects`` see those of the disk too."""
        effects = effects or SimEffects(self.board)
        self.disk.effect = effects._effect
        return replace(guarded(self.board, self.state, effects), disk=self.disk, unstartable="")

    def boot(self) -> Booted:
        return boot(self.disk)  # type: ignore[arg-type]

    def close(self) -> None:
        self.board.close()
