"""Packs on the disk: how much each takes, and which ones nothing will look for again. Deletes nothing."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from orkbench_tui.own_files import own_file_error
from orkbench_tui.plain_text import one_line
from orkbench_tui.runner.orkpack.layout import PACK_EXTENSION
from orkbench_tui.runner.quantize.pack_cache import PACK_REVISION

__all__ = ["PackOnDisk", "pack_disk", "pack_disk_document", "pack_disk_lines", "packs_of"]

_NAME = re.compile(
    rf"(?P<model>.+)-(?P<digest>[0-9a-f]{{16}})-(?P<scheme>[a-z0-9-]+)-r(?P<revision>\d+){re.escape(PACK_EXTENSION)}"
)


@dataclass(frozen=True, slots=True)
class PackOnDisk:
    """``allocated`` counts the blocks on the disk. ``superseded`` says why it may go, "" where it is in use.

    A pack of another name was put here by somebody: it is never a candidate.
    """

    name: str
    bytes: int
    allocated: int
    model: str
    scheme: str
    superseded: str


def pack_disk(folder: Path) -> tuple[PackOnDisk, ...]:
    """Every pack in the folder, largest first; none where the folder is not there.

    Raises:
        DeniedError: the folder cannot be read.
    """
    found = []
    try:
        for path in sorted(folder.glob(f"*{PACK_EXTENSION}")) if folder.is_dir() else []:
            if path.is_file() and not path.is_symlink():
                stat = path.stat()
                found.append((path.name, stat.st_size, stat.st_blocks * 512))
    except OSError as error:
        raise own_file_error(error, folder, "the packs' folder") from error
    return packs_of(found)


def packs_of(files: Iterable[tuple[str, int, int]]) -> tuple[PackOnDisk, ...]:
    """The same of (name, bytes, allocated bytes)."""
    packs = []
    for name, size, allocated in files:
        parts = _NAME.fullmatch(name)
        if parts is None:
            packs.append(PackOnDisk(name, size, allocated, "", "", ""))
            continue
        revision = int(parts["revision"])
        why = (
            f"of revision {revision}; packs are looked for in revision {PACK_REVISION}"
            if revision < PACK_REVISION
            else ""
        )
        packs.append(PackOnDisk(name, size, allocated, parts["model"], parts["scheme"], why))
    return tuple(sorted(packs, key=lambda pack: (-pack.allocated, pack.name)))


def pack_disk_document(packs: Iterable[PackOnDisk], free: int) -> dict[str, Any]:
    rows = list(packs)
    return {
        "packs": [asdict(pack) for pack in rows],
        "allocated_bytes": sum(pack.allocated for pack in rows),
        "candidate_bytes": sum(pack.allocated for pack in rows if pack.superseded),
        "free_bytes": free,
    }


def pack_disk_lines(packs: Iterable[PackOnDisk], free: int) -> list[str]:
    rows = list(packs)
    lines = [
        f"{pack.allocated / (1 << 20):>10.1f} MiB  {one_line(pack.name, 100)}"
        + (f"  may go: {pack.superseded}" if pack.superseded else "")
        for pack in rows
    ]
    candidates = sum(pack.allocated for pack in rows if pack.superseded)
    lines.append(
        f"{len(rows)} packs, {sum(p.allocated for p in rows) / (1 << 20):.1f} MiB; candidates "
        f"{candidates / (1 << 20):.1f} MiB; free {free / (1 << 30):.1f} GiB. Nothing is deleted by itself."
    )
    return lines
