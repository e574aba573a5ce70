"""What the boot loader will find at the next boot, read through the names it uses."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass

from orkbench_tui.errors import InvalidFileError
from orkbench_tui.ops.disk import Disk, Kind
from orkbench_tui.ops.kernel.device_tree import MAX_BYTES, parse_device_tree
from orkbench_tui.ops.kernel.environment import overlay_faults, read_environment
from orkbench_tui.ops.kernel.extlinux import Entry, parse_menu
from orkbench_tui.ops.kernel.formats import (
    HEAD_BYTES,
    Judgement,
    image_release,
    judge_image,
    judge_initrd,
    judge_wrapped_initrd,
)
from orkbench_tui.ops.kernel.layout import MENU, Layout, find_layout

__all__ = ["NextBoot", "next_boot"]

_IMAGE_BYTES = 64 << 20
_MENU_BYTES = 256 << 10


@dataclass(frozen=True, slots=True)
class NextBoot:
    """``release`` of the kernel that comes up, "" when that cannot be told; ``faults`` say why it may not."""

    release: str
    faults: tuple[str, ...]


def next_boot(disk: Disk, command_line: str, running: str) -> NextBoot:
    """Which kernel the board would start now, and whether everything it names is there and whole."""
    layout = find_layout(disk, command_line, running)
    if layout.scripted:
        return _by_links(disk, layout)
    if disk.kind(MENU) is Kind.FILE:
        return _by_menu(disk)
    return NextBoot("", (layout.refusal or "no boot menu",))


def menu_path(path: str) -> str:
    """A path of the menu as one of the board: a boot partition of its own leaves the /boot out."""
    return (
        path if path.startswith(("/boot/", "/usr/", "/lib/")) else posixpath.join("/boot", path.lstrip("/"))
    )


def _by_links(disk: Disk, layout: Layout) -> NextBoot:
    release, faults = _kernel(disk, "/boot/Image")
    environment = read_environment(disk, layout)
    tree = environment.tree_file if environment is not None else ""
    if tree:
        faults += _tree(disk, f"/boot/dtb/{tree}")
    if environment is not None:
        folder = f"{posixpath.dirname(f'/boot/dtb/{tree}')}/overlay" if tree else "/boot/dtb/rockchip/overlay"
        faults += overlay_faults(disk, environment, frozenset(disk.list(folder)))
    if disk.kind("/boot/uInitrd") is not None:
        faults += _ram_disk(disk, "/boot/uInitrd", wrapped=True)
    return NextBoot(release, (*faults, *_modules(disk, release)))


def _by_menu(disk: Disk) -> NextBoot:
    menu = parse_menu(disk.read(MENU, _MENU_BYTES).decode("utf-8", "replace"))
    entry: Entry | None = menu.first
    if entry is None:
        return NextBoot("", (f"{MENU} has no entry {menu.default!r}",))
    release, faults = _kernel(disk, menu_path(entry.kernel))
    if entry.initrd:
        faults += _ram_disk(disk, menu_path(entry.initrd), wrapped=False)
    if entry.tree:
        faults += _tree(disk, menu_path(entry.tree))
    elif entry.tree_folder and not disk.list(menu_path(entry.tree_folder.rstrip("/"))):
        faults.append(f"{entry.tree_folder} has no device trees")
    faults += [
        f"{path} is not there" for path in entry.overlays.split() if disk.kind(menu_path(path)) is None
    ]
    return NextBoot(release, (*faults, *_modules(disk, release)))


def _kernel(disk: Disk, path: str) -> tuple[str, list[str]]:
    try:
        data, size = disk.read(path, _IMAGE_BYTES), disk.size(path)
    except OSError as error:
        return "", [f"{path}: {error.strerror}"]
    release = image_release(data) or ""
    faults = _said(path, judge_image(data[:HEAD_BYTES], size))
    return release, faults or ([] if release else [f"{path} names no release"])


def _said(path: str, judgement: Judgement | None) -> list[str]:
    return [f"{path}: {judgement[0]}"] if judgement else []


def _tree(disk: Disk, path: str) -> list[str]:
    try:
        parse_device_tree(disk.read(path, MAX_BYTES), path)
    except InvalidFileError as error:
        return [error.line()]
    except OSError as error:
        return [f"{path}: {error.strerror}"]
    return []


def _ram_disk(disk: Disk, path: str, *, wrapped: bool) -> list[str]:
    try:
        head, size = disk.read(path, HEAD_BYTES), disk.size(path)
    except OSError as error:
        return [f"{path}: {error.strerror}"]
    return _said(path, judge_wrapped_initrd(head, size) if wrapped else judge_initrd(head))


def _modules(disk: Disk, release: str) -> list[str]:
    path = f"/lib/modules/{release}"
    return [] if not release or disk.kind(path) is Kind.FOLDER else [f"{path} is not there"]
