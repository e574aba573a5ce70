"""Captured files as texts by name: what a folder, an archive, standard input or a live board turns into.

Nothing here knows what a file means (see ``kinds``). Sizes are bounded; archives are read into memory and
never unpacked.
"""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO

from orkbench_tui.errors import InvalidFileError, UsageError
from orkbench_tui.user_files import open_regular

__all__ = ["Capture", "CapturedFile", "DeniedSource", "from_bytes", "read_capture"]

MAX_FILE_BYTES = 64 << 20
MAX_FILES = 1000


@dataclass(frozen=True, slots=True)
class CapturedFile:
    """``name`` without folders and without an ``input.`` prefix; ``text`` decoded with replacement.

    ``head`` and ``size`` are those of the bytes, for files that are no text.
    """

    name: str
    text: str
    binary: bool = False
    head: bytes = b""
    size: int | None = None


@dataclass(frozen=True, slots=True)
class DeniedSource:
    """A source of a live board that could not be read. ``reason`` is denied, absent or failed."""

    name: str
    path: str
    reason: str
    errno: str = ""


@dataclass(frozen=True, slots=True)
class Capture:
    """``source`` is replay, board or sim; ``unreadable`` only for live boards and their bundles."""

    source: str
    files: tuple[CapturedFile, ...] = ()
    unreadable: tuple[DeniedSource, ...] = ()

    @property
    def live(self) -> bool:
        return self.source != "replay"


def from_bytes(name: str, data: bytes, size: int | None = None) -> CapturedFile:
    """``size`` where ``data`` is not all of the file."""
    base = PurePosixPath(name).name.removeprefix("input.")
    head = data[:4096]
    # UTF-16 and images have NUL bytes; device-tree strings do too, at the end of printable words.
    printable = sum(byte in b"\t\n\r\0\x1b" or byte >= 0x20 for byte in head)
    binary = bool(head) and (printable < 0.9 * len(head) or head.count(0) > len(head) // 4)
    text = data[:MAX_FILE_BYTES].decode("utf-8", "replace").replace("\r\n", "\n")
    return CapturedFile(base, text, binary, head if binary else b"", size if size is not None else len(data))


def read_capture(paths: Iterable[Path], stdin: IO[bytes] | None = None) -> Capture:
    """Files, folders, ``.tar``/``.tar.gz`` archives, or ``-`` for standard input, taken as one capture.

    Raises:
        UsageError: a path does not exist, or no file was found.
        InvalidFileError: an archive is damaged.
        DeniedError: a file may not be read.
    """
    files: list[CapturedFile] = []
    for path in paths:
        if str(path) == "-":
            files.append(from_bytes("stdin", stdin.read(MAX_FILE_BYTES) if stdin else b""))
        elif path.is_dir():
            inside = sorted(item for item in path.rglob("*") if item.is_file() and _wanted(item.name))
            files += [from_bytes(item.name, _read(item)) for item in inside[:MAX_FILES]]
        elif not path.exists():
            raise UsageError(f"no file {path}", do="name a capture folder, an archive, log files or -")
        elif path.name.endswith((".tar", ".tar.gz", ".tgz")):
            files += _archive(path)
        else:
            files.append(from_bytes(path.name, _read(path), path.stat().st_size))
    source: str = "replay"
    unreadable: tuple[DeniedSource, ...] = ()
    manifests = [file for file in files if file.name == _MANIFEST]
    files = [file for file in files if file.name != _MANIFEST]
    if not files:
        raise UsageError("no files to read", do="name a capture folder, an archive, log files or -")
    if len(manifests) == 1:
        source, unreadable = _manifest(manifests[0].text)
    return Capture(source, tuple(files[:MAX_FILES]), unreadable)


def _manifest(text: str) -> tuple[str, tuple[DeniedSource, ...]]:
    """Where a bundle of ours was taken and what could not be read there."""
    try:
        document = json.loads(text)
        if document["schema"] != "ork.bundle/1" or document["source"] not in ("board", "sim", "replay"):
            return "replay", ()
        entries = [
            DeniedSource(*(str(item[k]) for k in ("name", "path", "reason", "errno")))
            for item in document["unreadable"]
        ]
    except (ValueError, TypeError, KeyError, RecursionError):
        return "replay", ()
    return document["source"], tuple(entries)


_MANIFEST = "manifest.json"


def _wanted(name: str) -> bool:
    # What a case says the answer should be is not evidence.
    return name != "expected.json" and not name.startswith(".")


def _read(path: Path) -> bytes:
    try:
        with open_regular(
            path, "captured file", do="name a capture folder, an archive, log files or -"
        ) as file:
            return file.read(MAX_FILE_BYTES)
    except OSError as error:
        raise InvalidFileError(f"cannot read {path}", why=str(error.strerror)) from error


def _archive(path: Path) -> list[CapturedFile]:
    files: list[CapturedFile] = []
    budget = MAX_FILE_BYTES
    try:
        with open_regular(path, "archive") as file, tarfile.open(fileobj=file, mode="r:*") as archive:
            for member in archive:
                name = PurePosixPath(member.name).name
                if not member.isfile() or not _wanted(name):
                    continue
                if len(files) >= MAX_FILES or member.size > budget:
                    raise InvalidFileError(f"{path} is too large", why="more than 1000 files or 64 MiB")
                budget -= member.size
                content = archive.extractfile(member)
                files.append(from_bytes(name, content.read(member.size) if content else b""))
    except tarfile.ReadError as error:
        # Its text lists what every kind of compression said.
        why = "it is no tar archive, or its beginning is damaged" if not files else str(error)
        raise InvalidFileError(f"cannot read {path}", why=why) from error
    except (tarfile.TarError, EOFError, OSError) as error:
        raise InvalidFileError(f"cannot read {path}", why=str(error) or type(error).__name__) from error
    return files
