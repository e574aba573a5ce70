"""A boot disk in memory that can lose power: what was not made durable is gone afterwards, or half of it is."""

from __future__ import annotations

import errno
import hashlib
import os
import posixpath
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from orkbench_tui.ops.disk import FileSystem, Kind

LOSSES = ("nothing", "everything not synced", "data not synced")
"""What a power loss takes: nothing (only the process died), entries and data, or the data of files alone."""


@dataclass(eq=False)
class File:
    data: bytes
    mode: int
    synced: bool = False


@dataclass(eq=False)
class Link:
    target: str


@dataclass(eq=False)
class Folder:
    entries: dict[str, File | Link | Folder] = field(default_factory=dict)
    durable: dict[str, File | Link | Folder] = field(default_factory=dict)


Node = File | Link | Folder


def _oserror(code: int, path: str) -> OSError:
    return OSError(code, os.strerror(code), path)


class CrashDisk:
    """``effect`` is called around every effect, so that a test can stop there."""

    def __init__(self, effect: Callable[[Callable[[], None]], None] = lambda act: act()) -> None:
        self.root = Folder()
        self.effect = effect
        self.free_bytes = 1 << 40
        self.type = "ext4"
        self.read_only = False

    # -- filling and losing -----------------------------------------------------------------------

    def fill(self, files: dict[str, bytes], links: dict[str, str]) -> None:
        """Content as delivered, durable."""
        for path, data in files.items():
            self._folder_for(path).entries[posixpath.basename(path)] = File(data, 0o644, True)
        for path, target in links.items():
            self._folder_for(path).entries[posixpath.basename(path)] = Link(target)
        self._settle(self.root)

    def _folder_for(self, path: str) -> Folder:
        folder = self.root
        for part in [piece for piece in posixpath.dirname(path).split("/") if piece]:
            made = folder.entries.setdefault(part, Folder())
            assert isinstance(made, Folder)
            folder = made
        return folder

    def _settle(self, folder: Folder) -> None:
        folder.durable = dict(folder.entries)
        for node in folder.entries.values():
            if isinstance(node, Folder):
                self._settle(node)

    def lose_power(self, loss: str) -> None:
        if loss == "everything not synced":
            self._restore(self.root)
        if loss != "nothing":
            for node in self._nodes(self.root):
                if isinstance(node, File) and not node.synced:
                    node.data, node.synced = b"", True
        self._settle(self.root)

    def _restore(self, folder: Folder) -> None:
        folder.entries = dict(folder.durable)
        for node in folder.entries.values():
            if isinstance(node, Folder):
                self._restore(node)

    def _nodes(self, folder: Folder) -> Iterator[Node]:
        for node in folder.entries.values():
            yield node
            if isinstance(node, Folder):
                yield from self._nodes(node)

    def names(self, folder: Folder | None = None, below: str = "") -> list[str]:
        """Every path there is."""
        found = []
        for name, node in (folder or self.root).entries.items():
            found.append(f"{below}/{name}")
            if isinstance(node, Folder):
                found += self.names(node, f"{below}/{name}")
        return sorted(found)

    # -- looking ----------------------------------------------------------------------------------

    def _find(self, path: str, *, follow: bool, budget: int = 40) -> Node | None:
        node: Node = self.root
        parts = [part for part in path.split("/") if part not in ("", ".")]
        real: list[str] = []
        while parts:
            part = parts.pop(0)
            if part == "..":
                real = real[:-1]
                node = self._find("/" + "/".join(real), follow=True, budget=budget) or self.root
                continue
            if not isinstance(node, Folder) or part not in node.entries:
                return None
            step = node.entries[part]
            if isinstance(step, Link) and (parts or follow):
                if budget <= 0:
                    raise _oserror(errno.ELOOP, path)
                base = "" if step.target.startswith("/") else "/".join(real)
                rest = "/".join([base, step.target, *parts])
                return self._find(rest, follow=follow, budget=budget - 1)
            node = step
            real.append(part)
        return node

    def _file(self, path: str) -> File:
        node = self._find(path, follow=True)
        if node is None:
            raise _oserror(errno.ENOENT, path)
        if not isinstance(node, File):
            raise _oserror(errno.EISDIR, path)
        return node

    def kind(self, path: str) -> Kind | None:
        node = self._find(path, follow=False)
        return None if node is None else {File: Kind.FILE, Link: Kind.LINK, Folder: Kind.FOLDER}[type(node)]

    def read(self, path: str, limit: int) -> bytes:
        return self._file(path).data[:limit]

    def size(self, path: str) -> int:
        return len(self._file(path).data)

    def digest(self, path: str) -> str:
        return hashlib.sha256(self._file(path).data).hexdigest()

    def list(self, path: str) -> list[str]:
        node = self._find(path, follow=True)
        return sorted(node.entries) if isinstance(node, Folder) else []

    def readlink(self, path: str) -> str | None:
        node = self._find(path, follow=False)
        return node.target if isinstance(node, Link) else None

    def mode(self, path: str) -> int:
        return self._file(path).mode

    def file_system(self, path: str) -> FileSystem:
        return FileSystem(self.type, "/", self.read_only, self.free_bytes)

    def data(self, path: str, limit: int) -> bytes | None:
        """As the simulated boot loader reads; None when it is no file."""
        try:
            return self.read(path, limit)
        except OSError:
            return None

    # -- effects ----------------------------------------------------------------------------------

    def _parent(self, path: str) -> tuple[Folder, str]:
        node = self._find(posixpath.dirname(path) or "/", follow=True)
        if not isinstance(node, Folder):
            raise _oserror(errno.ENOENT, path)
        return node, posixpath.basename(path)

    def _make(self, path: str, node: Node) -> None:
        def act() -> None:
            folder, name = self._parent(path)
            if name in folder.entries:
                raise _oserror(errno.EEXIST, path)
            folder.entries[name] = node

        self.effect(act)

    def make_folder(self, path: str) -> None:
        self._make(path, Folder())

    def create(self, path: str, data: bytes, mode: int) -> None:
        self._make(path, File(data, mode))

    def copy_in(self, source: Path, path: str, mode: int) -> None:
        self._make(path, File(source.read_bytes(), mode))

    def sync_file(self, path: str) -> None:
        def act() -> None:
            self._file(path).synced = True

        self.effect(act)

    def sync_folder(self, path: str) -> None:
        def act() -> None:
            node = self._find(path, follow=True)
            if not isinstance(node, Folder):
                raise _oserror(errno.ENOTDIR, path)
            node.durable = dict(node.entries)

        self.effect(act)

    def rename(self, old: str, new: str) -> None:
        def act() -> None:
            source, name = self._parent(old)
            target, final = self._parent(new)
            if name not in source.entries:
                raise _oserror(errno.ENOENT, old)
            there = target.entries.get(final)
            if isinstance(there, Folder) and there.entries:
                raise _oserror(errno.ENOTEMPTY, new)
            target.entries[final] = source.entries.pop(name)

        self.effect(act)

    def link(self, target: str, path: str) -> None:
        self._make(path, Link(target))

    def remove(self, path: str) -> None:
        def act() -> None:
            folder, name = self._parent(path)
            if name not in folder.entries:
                raise _oserror(errno.ENOENT, path)
            if isinstance(folder.entries[name], Folder):
                raise _oserror(errno.EISDIR, path)
            del folder.entries[name]

        self.effect(act)

    def remove_folder(self, path: str) -> None:
        def act() -> None:
            folder, name = self._parent(path)
            node = folder.entries.get(name)
            if not isinstance(node, Folder):
                raise _oserror(errno.ENOENT, path)
            if node.entries:
                raise _oserror(errno.ENOTEMPTY, path)
            del folder.entries[name]

        self.effect(act)

    def run_script(self, path: str, *arguments: str) -> tuple[int, str]:
        said = (0, "") if self._file(path).data.startswith(b"#!/bin/sh") else (126, "no script")
        self.effect(lambda: None)
        return said
