"""Steps on small files of the board's disk that several operations make."""

from __future__ import annotations

from orkbench_tui.ops.disk import Disk, Kind
from orkbench_tui.ops.guard.declaration import Step
from orkbench_tui.ops.guard.disk_verbs import ABSENT, MAX_TEXT_BYTES

__all__ = ["folder_steps", "removal_steps", "text_steps"]


def folder_steps(disk: Disk, path: str) -> tuple[Step, ...]:
    """A step for the folder and for each above it that is not there yet, outermost first."""
    missing: list[str] = []
    while path and path != "/" and disk.kind(path) is None:
        missing.append(path)
        path = path.rpartition("/")[0]
    return tuple(Step("folder", folder, ABSENT, "folder") for folder in reversed(missing))


def _now(disk: Disk, path: str) -> str:
    if disk.kind(path) is not Kind.FILE:
        return ABSENT
    return disk.read(path, MAX_TEXT_BYTES).decode("utf-8", "replace")


def text_steps(disk: Disk, path: str, content: str, why: str = "") -> tuple[Step, ...]:
    """A step that writes a small file, none when it reads so already."""
    now = _now(disk, path)
    return () if now == content else (Step("text", path, now, content, why),)


def removal_steps(disk: Disk, path: str, why: str = "") -> tuple[Step, ...]:
    """A step that removes a small file, none when it is not there."""
    now = _now(disk, path)
    return () if now == ABSENT else (Step("text", path, now, ABSENT, why),)
