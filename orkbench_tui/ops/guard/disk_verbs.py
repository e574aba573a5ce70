"""Steps on the boot disk: whole files and folders that appear at once, links that are switched at once.

Every new thing is made under a name of its own, made durable, and then renamed. So at any moment the final name
holds what was there before or what shall be there, and taking back is renaming or removing. What is left under the
passing names is removed by ``tidy``.
"""

from __future__ import annotations

import posixpath
from pathlib import Path

from orkbench_tui.errors import RefusedError
from orkbench_tui.ops.disk import Disk, HostDisk, Kind, files_below, tree_digest
from orkbench_tui.ops.guard.board import GuardedBoard
from orkbench_tui.ops.guard.declaration import Step

__all__ = [
    "ABSENT",
    "MAX_TEXT_BYTES",
    "install_file",
    "install_tree",
    "observe_file",
    "observe_folder",
    "observe_link",
    "observe_text",
    "observe_tree",
    "run_dry",
    "set_folder",
    "set_link",
    "set_text",
    "source_digest",
    "take_back_file",
    "take_back_folder",
    "take_back_tree",
    "tidy",
]

ABSENT = "absent"
MAX_TEXT_BYTES = 64 << 10
_FOLDER = "folder"


def _disk(board: GuardedBoard) -> Disk:
    if board.disk is None:
        raise RefusedError("the board's disk cannot be reached", why="it is not this machine's")
    return board.disk


def _new(path: str) -> str:
    return _beside(path, "new")


def _old(path: str) -> str:
    return _beside(path, "old")


def _beside(path: str, kind: str) -> str:
    folder, name = posixpath.split(path)
    return posixpath.join(folder, f".{name}.ork-{kind}")


def _switch(disk: Disk, path: str) -> None:
    """Put what was made under the passing name under its final one, durably."""
    disk.rename(_new(path), path)
    disk.sync_folder(posixpath.dirname(path))


def _remove_all(disk: Disk, path: str) -> None:
    """A file, link or whole folder."""
    kind = disk.kind(path)
    if kind is Kind.FOLDER:
        for name in disk.list(path):
            _remove_all(disk, f"{path}/{name}")
        disk.remove_folder(path)
    elif kind is not None:
        disk.remove(path)


def tidy(board: GuardedBoard, step: Step) -> None:
    """Remove what an interrupted step left under passing names."""
    disk = _disk(board)
    left = [path for path in (_new(step.subject), _old(step.subject)) if disk.kind(path) is not None]
    for path in left:
        _remove_all(disk, path)
    if left:
        disk.sync_folder(posixpath.dirname(step.subject))


# -- one file --------------------------------------------------------------------------------------


def observe_file(board: GuardedBoard, step: Step) -> str | None:
    """The digest of what stands there, ABSENT for nothing; None for something that is no file."""
    disk = _disk(board)
    kind = disk.kind(step.subject)
    if kind is None:
        return ABSENT
    return disk.digest(step.subject) if kind is Kind.FILE else None


def install_file(board: GuardedBoard, step: Step) -> None:
    """``source`` is the file on this machine."""
    disk = _disk(board)
    tidy(board, step)
    board.tell(f"copying {posixpath.basename(step.subject)}")
    disk.copy_in(Path(step.source), _new(step.subject), 0o644)
    disk.sync_file(_new(step.subject))
    _switch(disk, step.subject)
    board.tell("")


def take_back_file(board: GuardedBoard, step: Step, found: str) -> None:
    """Remove what this step has put there; it only ever makes new files."""
    disk = _disk(board)
    disk.remove(step.subject)
    disk.sync_folder(posixpath.dirname(step.subject))


# -- a small text ----------------------------------------------------------------------------------


def observe_text(board: GuardedBoard, step: Step) -> str | None:
    disk = _disk(board)
    kind = disk.kind(step.subject)
    if kind is None:
        return ABSENT
    return disk.read(step.subject, MAX_TEXT_BYTES).decode("utf-8", "replace") if kind is Kind.FILE else None


def _put_text(board: GuardedBoard, step: Step, value: str) -> None:
    disk = _disk(board)
    tidy(board, step)
    if value == ABSENT:
        disk.remove(step.subject)
        disk.sync_folder(posixpath.dirname(step.subject))
        return
    mode = 0o755 if step.subject.endswith(".sh") else 0o644
    disk.create(_new(step.subject), value.encode(), mode)
    disk.sync_file(_new(step.subject))
    _switch(disk, step.subject)


def set_text(board: GuardedBoard, step: Step, found: str | None = None) -> None:
    """Write ``after`` (or ``found``, to take it back); ABSENT removes the file."""
    _put_text(board, step, step.after if found is None else found)


# -- a link ----------------------------------------------------------------------------------------


def observe_link(board: GuardedBoard, step: Step) -> str | None:
    disk = _disk(board)
    kind = disk.kind(step.subject)
    if kind is None:
        return ABSENT
    return disk.readlink(step.subject) if kind is Kind.LINK else None


def set_link(board: GuardedBoard, step: Step, found: str | None = None) -> None:
    """Point the link to ``after`` (or to ``found``); ABSENT removes it."""
    disk, target = _disk(board), step.after if found is None else found
    tidy(board, step)
    if target == ABSENT:
        disk.remove(step.subject)
        disk.sync_folder(posixpath.dirname(step.subject))
        return
    disk.link(target, _new(step.subject))
    _switch(disk, step.subject)


# -- folders ---------------------------------------------------------------------------------------


def observe_folder(board: GuardedBoard, step: Step) -> str | None:
    kind = _disk(board).kind(step.subject)
    return ABSENT if kind is None else _FOLDER if kind is Kind.FOLDER else None


def set_folder(board: GuardedBoard, step: Step) -> None:
    disk = _disk(board)
    disk.make_folder(step.subject)
    disk.sync_folder(posixpath.dirname(step.subject))


def take_back_folder(board: GuardedBoard, step: Step, found: str) -> None:
    """Remove the folder; what somebody else has put into it since keeps it there, and this raises."""
    disk = _disk(board)
    disk.remove_folder(step.subject)
    disk.sync_folder(posixpath.dirname(step.subject))


def source_digest(folder: Path) -> str:
    """``tree_digest`` of a folder of this machine."""
    return tree_digest(files_below(HostDisk(str(folder)), ""))


def observe_tree(board: GuardedBoard, step: Step) -> str | None:
    disk = _disk(board)
    kind = disk.kind(step.subject)
    if kind is None:
        return ABSENT
    return tree_digest(files_below(disk, step.subject)) if kind is Kind.FOLDER else None


def install_tree(board: GuardedBoard, step: Step) -> None:
    """``source`` is the folder on this machine; links in it are kept as they are."""
    disk = _disk(board)
    tidy(board, step)
    board.tell(f"copying {posixpath.basename(step.subject)}/")
    _copy_folder(disk, Path(step.source), _new(step.subject))
    _switch(disk, step.subject)
    board.tell("")


def _copy_folder(disk: Disk, source: Path, path: str) -> None:
    disk.make_folder(path)
    for entry in sorted(source.iterdir()):
        target = f"{path}/{entry.name}"
        if entry.is_symlink():
            disk.link(str(entry.readlink()), target)
        elif entry.is_dir():
            _copy_folder(disk, entry, target)
        elif entry.is_file():
            disk.copy_in(entry, target, 0o755 if entry.stat().st_mode & 0o111 else 0o644)
            disk.sync_file(target)
    disk.sync_folder(path)


def take_back_tree(board: GuardedBoard, step: Step, found: str) -> None:
    """Under another name first, so that a half-removed folder never stands under the final one."""
    disk = _disk(board)
    disk.rename(step.subject, _old(step.subject))
    disk.sync_folder(posixpath.dirname(step.subject))
    tidy(board, step)


# -- a script --------------------------------------------------------------------------------------


def run_dry(board: GuardedBoard, step: Step) -> None:
    """Run the script with ``--dry-run``. Raises RefusedError when it would not work."""
    code, said = _disk(board).run_script(step.subject, "--dry-run")
    if code != 0:
        lines = [line for line in said.splitlines() if line.strip()]
        raise RefusedError(f"{step.subject} --dry-run ended with {code}", why=lines[-1] if lines else "")
