"""The disk a simulated board boots from: a folder of this machine, kept over restarts as a disk is.

Made once with what the board is delivered with; from then on it belongs to whoever writes to it.
"""

from __future__ import annotations

import json
import os
import posixpath
import shutil
from collections.abc import Mapping
from pathlib import Path

from orkbench_tui.ops.files import Access, Reading

__all__ = ["BootDisk", "on_disk"]

_FORMAT = 3
_MARK = ".delivered.json"
_ON_DISK = (
    "/boot/",
    "/lib/modules/",
    "/lib/firmware/",
    "/usr/lib/linux-image-",
    "/etc/systemd/",
    "/etc/udev/",
    "/etc/group",
    "/lib/systemd/",
    "/etc/default/",
    "/etc/kernel/",
    "/var/lib/dpkg/",
    "/proc/mounts",
)
_KERNEL, _WHOLE = "/boot/Image", ".kernel-before-damage"
_MAX_LINKS = 40
MAX_READ = 1 << 20


def on_disk(path: str) -> bool:
    """Whether a path of the board lies on its disk."""
    return f"{path}/".startswith(_ON_DISK) or path.startswith(_ON_DISK)


class BootDisk:
    """``folder`` holds the tree; paths are absolute on the board."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def deliver(
        self, board: str, files: Mapping[str, bytes], links: Mapping[str, str], *, anew: bool = False
    ) -> None:
        """Make the disk as the board is delivered, unless it is there already."""
        mark = {"format": _FORMAT, "board": board}
        if not anew and self._mark() == mark:
            return
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(mode=0o700, parents=True)
        for path, data in files.items():
            if on_disk(path):
                place = self.folder / path.lstrip("/")
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(data)
        for path, target in links.items():
            if on_disk(path):
                place = self.folder / path.lstrip("/")
                place.parent.mkdir(parents=True, exist_ok=True)
                place.symlink_to(target)
        (self.folder / _MARK).write_text(json.dumps(mark))

    def damage_kernel(self) -> None:
        """Cut the kernel that boots next short, keeping what it was."""
        place = self.place(_KERNEL)
        if place is not None and place.is_file() and not place.with_name(_WHOLE).exists():
            place.replace(place.with_name(_WHOLE))
            place.write_bytes(b"\0" * 12)

    def repair_kernel(self) -> None:
        """Undo ``damage_kernel``."""
        place = self.place(_KERNEL)
        if place is not None and place.with_name(_WHOLE).exists():
            place.with_name(_WHOLE).replace(place)

    def _mark(self) -> object:
        try:
            return json.loads((self.folder / _MARK).read_text())
        except (OSError, ValueError):
            return None

    def resolve(self, path: str) -> str | None:
        """The path with links followed inside the disk; None when they go in circles."""
        parts, real = [part for part in path.split("/") if part], "/"
        budget = _MAX_LINKS
        while parts:
            part = parts.pop(0)
            step = posixpath.normpath(posixpath.join(real, part))
            place = self.folder / step.lstrip("/")
            if not place.is_symlink():
                real = step
                continue
            if (budget := budget - 1) < 0:
                return None
            target = str(place.readlink())
            real = "/" if target.startswith("/") else real
            parts = [piece for piece in target.split("/") if piece] + parts
        return real

    def place(self, path: str) -> Path | None:
        """Where a path's file is on this machine, links followed; None for a loop."""
        real = self.resolve(path)
        return None if real is None else self.folder / real.lstrip("/")

    def data(self, path: str, limit: int) -> bytes | None:
        """Up to ``limit`` bytes; None when it is no file that can be read."""
        place = self.place(path)
        if place is None or not place.is_file():
            return None
        with place.open("rb") as file:
            return file.read(limit)

    def read(self, path: str) -> Reading:
        place = self.place(path)
        if place is None:
            return Reading(path, Access.FAILED, errno_name="ELOOP")
        try:
            if place.is_dir():
                return Reading(path, Access.FAILED, errno_name="EISDIR")
            with place.open("rb") as file:
                return Reading(path, Access.PRESENT, file.read(MAX_READ))
        except OSError as error:
            return Reading.from_error(path, error)

    def list(self, path: str) -> list[str]:
        place = self.place(path)
        if place is None or not place.is_dir():
            return []
        return sorted(name for name in os.listdir(place) if name not in (_MARK, _WHOLE))  # noqa: PTH208 - names, not paths

    def readlink(self, path: str) -> str | None:
        folder = self.place(posixpath.dirname(path))
        place = folder / posixpath.basename(path) if folder is not None else None
        return str(place.readlink()) if place is not None and place.is_symlink() else None
