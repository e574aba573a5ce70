"""The series of kernel patches as data: kernel_patches/series.toml."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orkbench_tui.errors import InvalidFileError, UsageError

__all__ = ["Patch", "Series", "default_folder", "load_series"]

VERSION = 1


@dataclass(frozen=True, slots=True)
class Patch:
    """``files`` maps a tree's id to a patch file; ``whole_tree``: it touches files outside the driver's folder.

    ``config`` are symbols (without CONFIG_) a build with it wants; ``note`` is what is left to a person.
    """

    id: str
    title: str
    purpose: str
    risk: str
    verify: str
    rollback: str
    needs: tuple[str, ...]
    optional: bool
    whole_tree: bool
    config: Mapping[str, str]
    note: str
    files: Mapping[str, Path]


@dataclass(frozen=True, slots=True)
class Series:
    """``trees`` maps a driver version to the id of its variant; patches are in the order they are applied."""

    folder: Path
    trees: Mapping[str, str]
    patches: tuple[Patch, ...]

    def chosen(self, names: tuple[str, ...], variant: str) -> tuple[Patch, ...]:
        """The patches of these names with what they need, in order; without names all for this variant of the
        driver that are not optional.

        Raises:
            UsageError: no such patch.
        """
        known = {patch.id: patch for patch in self.patches}
        for name in names:
            if name not in known:
                raise UsageError(f"no patch {name!r}", do=f"there are: {', '.join(known)}")
        usual = [patch.id for patch in self.patches if not patch.optional and variant in patch.files]
        wanted = list(names) or usual
        for name in wanted:
            wanted += [need for need in known[name].needs if need not in wanted]
        return tuple(patch for patch in self.patches if patch.id in wanted)


def default_folder() -> Path:
    """The folder shipped with this program: beside the sources, or where an installation puts shared files."""
    beside = Path(__file__).parents[3] / "kernel_patches"
    return beside if beside.is_dir() else Path(sys.prefix) / "share" / "orkbench-tui" / "kernel_patches"


def load_series(folder: Path) -> Series:
    """Raises InvalidFileError: not there, not TOML, of another version, or something missing in it."""
    path = folder / "series.toml"
    try:
        data = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise InvalidFileError(str(path), why=error.strerror or str(error)) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidFileError(str(path), why=f"no TOML ({error})") from error
    if data.get("version") != VERSION:
        raise InvalidFileError(
            str(path), why=f"version {data.get('version')!r}; this program reads {VERSION}"
        )
    try:
        patches = tuple(_patch(folder, row) for row in data["patch"])
        trees = {str(row["version"]): str(row["id"]) for row in data["tree"]}
    except (KeyError, TypeError, AttributeError) as error:
        raise InvalidFileError(str(path), why=f"a table lacks {error}") from error
    for patch in patches:
        missing = [str(file) for file in patch.files.values() if not file.is_file()]
        if missing:
            raise InvalidFileError(missing[0], why=f"named by {path.name} and not there")
    return Series(folder, trees, patches)


def _patch(folder: Path, row: dict[str, Any]) -> Patch:
    return Patch(
        id=str(row["id"]),
        title=str(row["title"]),
        purpose=str(row["purpose"]),
        risk=str(row["risk"]),
        verify=str(row["verify"]),
        rollback=str(row["rollback"]),
        needs=tuple(map(str, row["needs"])),
        optional=bool(row["optional"]),
        whole_tree=bool(row.get("whole_tree")),
        config={str(key): str(value) for key, value in row.get("config", {}).items()},
        note=str(row.get("note", "")),
        files={str(tree): folder / str(file) for tree, file in row["files"].items()},
    )
