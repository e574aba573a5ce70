"""A source tree and what each patch would do to it; applying is all or nothing."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from orkbench_tui.errors import InvalidFileError, OrkError, RefusedError
from orkbench_tui.ops.kernel.patch_series import Patch, Series
from orkbench_tui.ops.work_folder import PATCHES, work_folder

__all__ = ["Finding", "State", "Tree", "apply_patches", "check_patches", "find_tree"]

_DRIVER = "drivers/rknpu"
_PLACES = (_DRIVER, "src", ".")
_HEADER = "include/rknpu_drv.h"


class State(StrEnum):
    APPLIED = "applied"
    FITS = "fits"
    MOVED = "context moved"
    MISSING = "file missing"
    NO_VARIANT = "no variant"
    NO_TREE = "needs a whole kernel tree"


@dataclass(frozen=True, slots=True)
class Tree:
    """``driver`` is the driver's folder below ``folder``; ``variant`` the id of the series' variant for it, "" for none."""

    folder: Path
    driver: str
    version: str
    variant: str

    @property
    def whole(self) -> bool:
        """Whether it is a kernel, not the driver alone."""
        return self.driver == _DRIVER


@dataclass(frozen=True, slots=True)
class Finding:
    """``detail`` says where and why a patch does not fit."""

    patch: Patch
    state: State
    detail: str = ""


def find_tree(folder: Path, series: Series) -> Tree:
    """Raises InvalidFileError: no rknpu driver below the folder."""
    for place in _PLACES:
        header = folder / place / _HEADER
        if header.is_file():
            text = header.read_text("utf-8", "replace")
            numbers = [
                re.search(rf"#define DRIVER_{part}\s+(\d+)", text)
                for part in ("MAJOR", "MINOR", "PATCHLEVEL")
            ]
            version = ".".join(found[1] for found in numbers if found)
            return Tree(folder, place, version or "unknown", series.trees.get(version, ""))
    raise InvalidFileError(
        str(folder),
        why=f"no rknpu driver: neither {', '.join(f'{place}/{_HEADER}' for place in _PLACES)}",
        do="name the top folder of a kernel, or of the driver's own sources",
    )


def _git(folder: Path, tree: Tree, patch: Patch, files: Iterable[Path], *words: str) -> tuple[int, str]:
    """``git apply`` in a folder laid out as the tree; exit code and what it complained about."""
    where = [] if patch.whole_tree or tree.whole else ["-p3", f"--directory={tree.driver}"]
    if tree.driver == "." and where:
        where = ["-p3"]
    environment = {
        "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
        "LC_ALL": "C",
        "HOME": str(folder),
        # A repository above the folder would make git pass over files it does not own.
        "GIT_CEILING_DIRECTORIES": str(folder.resolve().parent),
    }
    command = [
        "git",
        "apply",
        "--whitespace=nowarn",
        *where,
        *words,
        *(str(file.resolve()) for file in files),
    ]
    try:
        done = subprocess.run(
            command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True, check=False
        )
    except FileNotFoundError:
        raise OrkError("patches cannot be applied", why="there is no git here", do="install git") from None
    return done.returncode, done.stderr.decode("utf-8", "replace").strip()


def _touched(tree: Tree, patch: Patch, file: Path) -> list[str]:
    """Paths of the tree that a patch changes."""
    named = re.findall(r"(?m)^diff --git a/(\S+) b/\S+$", file.read_text("utf-8", "replace"))
    if patch.whole_tree or tree.whole:
        return named
    return [f"{tree.driver}/{path.removeprefix(f'{_DRIVER}/')}".removeprefix("./") for path in named]


def _copy(tree: Tree, paths: Iterable[str], folder: Path) -> None:
    for path in paths:
        source = tree.folder / path
        if source.is_file():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, folder / path)


def check_patches(tree: Tree, series: Series, patches: tuple[Patch, ...]) -> list[Finding]:
    """What each patch would do to the tree after those before it. The tree is only read."""
    # Those that were not asked for may be there, and lie on top of those that were.
    usable = [patch for patch in series.patches if _file(tree, patch) is not None]
    paths = {path for patch in usable for path in _touched(tree, patch, patch.files[tree.variant])}
    with work_folder(PATCHES) as room:
        back, forth = room / "back", room / "forth"
        for folder in (back, forth):
            folder.mkdir()
            _copy(tree, paths, folder)
        applied = set()
        for patch in reversed(usable):
            code, _ = _git(back, tree, patch, [patch.files[tree.variant]], "-R")
            if code == 0:
                applied.add(patch.id)
        return [_finding(tree, patch, forth, patch.id in applied) for patch in patches]


def _file(tree: Tree, patch: Patch) -> Path | None:
    if patch.whole_tree and not tree.whole:
        return None
    return patch.files.get(tree.variant)


def _finding(tree: Tree, patch: Patch, folder: Path, applied: bool) -> Finding:
    if patch.whole_tree and not tree.whole:
        return Finding(patch, State.NO_TREE, "it changes device trees")
    file = _file(tree, patch)
    if file is None:
        versions = ", ".join(patch.files)
        return Finding(patch, State.NO_VARIANT, f"made for {versions}; this driver is {tree.version}")
    if applied:
        return Finding(patch, State.APPLIED)
    code, said = _git(folder, tree, patch, [file])
    if code == 0:
        return Finding(patch, State.FITS)
    lines = [line.removeprefix("error: ") for line in said.splitlines()]
    missing = next((line for line in lines if "No such file" in line), "")
    if missing:
        return Finding(patch, State.MISSING, missing)
    return Finding(patch, State.MOVED, next((line for line in lines if "patch failed" in line), said))


def apply_patches(tree: Tree, series: Series, patches: tuple[Patch, ...]) -> list[Finding]:
    """Apply what is not applied yet: all of it, or nothing. What the tree holds afterwards.

    Raises:
        RefusedError: one does not fit. The tree is as it was.
        OrkError: writing failed; what was written was put back.
    """
    if not patches:
        raise RefusedError(
            f"no patch is made for driver {tree.version}",
            why=f"there are variants for {', '.join(series.trees)}",
        )
    findings = check_patches(tree, series, patches)
    stuck = [finding for finding in findings if finding.state not in (State.FITS, State.APPLIED)]
    if stuck:
        first = stuck[0]
        raise RefusedError(
            f"{first.patch.id} cannot be applied",
            why=f"{first.state.value}: {first.detail}",
            do="nothing was changed; `ork kernel patches check` shows all of them",
        )
    wanted = [finding.patch for finding in findings if finding.state is State.FITS]
    paths = {path for patch in wanted for path in _touched(tree, patch, patch.files[tree.variant])}
    # No work_folder: after a kill in the middle these are the only originals there are.
    with tempfile.TemporaryDirectory(prefix="ork-originals-") as name:
        kept = Path(name)
        _copy(tree, paths, kept)
        try:
            for patch in wanted:
                code, said = _git(tree.folder, tree, patch, [patch.files[tree.variant]])
                if code != 0:
                    raise OrkError(
                        f"{patch.id} cannot be applied", why=said, do="the tree was put back as it was"
                    )
        except BaseException:
            _put_back(tree, paths, kept)
            raise
    return check_patches(tree, series, patches)


def _put_back(tree: Tree, paths: Iterable[str], kept: Path) -> None:
    for path in paths:
        if (kept / path).is_file():
            shutil.copyfile(kept / path, tree.folder / path)
        else:
            (tree.folder / path).unlink(missing_ok=True)
