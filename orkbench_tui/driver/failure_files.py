"""Files of failed jobs in the state folder: a bounded number, written so that they harm nothing, and read back."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from orkbench_tui import locations
from orkbench_tui.driver.failure_record import SCHEMA
from orkbench_tui.errors import InvalidFileError, OrkError, UsageError
from orkbench_tui.user_files import decoded, open_regular, read_bounded

__all__ = [
    "FILES_PER_NPU",
    "MAX_FILE_BYTES",
    "FailureFiles",
    "FailureSummary",
    "failures_folder",
    "kept_failures",
    "read_failure",
]

FILES_PER_NPU = 4
"""The first failures tell most: what fails after them often fails because of them."""
MAX_FILE_BYTES = 16 << 20
FREE_BYTES_LEFT = 64 << 20
"""Nothing is written where less would be left on the disk."""
_NUMBERS = itertools.count(1)
"""A process may open an NPU again within a second."""
_NAME = re.compile(r"[0-9]{8}-[0-9]{6}-[0-9]+-[0-9]+\.json")


def failures_folder() -> Path:
    return locations.state_dir() / "npu-failures"


@dataclass(slots=True)
class FailureFiles:
    """Where failures of one open NPU go. The folder keeps the newest ``keep`` files of all programs."""

    folder: Path
    keep: int
    source: str
    _written: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def wanted(self) -> bool:
        """Whether another failure would be kept."""
        return self.keep > 0 and self._written < FILES_PER_NPU

    def save(self, data: Mapping[str, Any]) -> Path | None:
        """Write one failure; None where it was not: none are kept, enough were, or the disk has no room.

        Raises:
            OSError: the folder cannot be made or written.
        """
        # Workers of a stream fail at the same time.
        with self._lock:
            return self._save(data) if self.wanted else None

    def _save(self, data: Mapping[str, Any]) -> Path | None:
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        text = json.dumps({"schema": SCHEMA, "source": self.source, "data": data}).encode()
        room = os.statvfs(self.folder)
        if room.f_bavail * room.f_frsize < FREE_BYTES_LEFT + len(text):
            return None
        now = time.time()
        stamp = datetime.fromtimestamp(now, UTC).strftime("%Y%m%d-%H%M%S")
        path = self.folder / f"{stamp}-{os.getpid()}-{next(_NUMBERS)}.json"
        self._written += 1
        _write_new(path, text)
        for old in _paths(self.folder)[self.keep :]:
            # Another program may have removed it first.
            with contextlib.suppress(OSError):
                old.unlink()
        return path


def _write_new(path: Path, text: bytes) -> None:
    """Whole or not at all; its addresses are the kernel's, so nobody else may read it."""
    part = path.with_suffix(".part")
    part.unlink(missing_ok=True)
    handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(text)
        part.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            part.unlink()
        raise


def _paths(folder: Path) -> list[Path]:
    """Files of failures, newest first."""
    try:
        found = [path for path in folder.iterdir() if _NAME.fullmatch(path.name)]
    except OSError:
        return []
    return sorted(found, key=lambda path: _order(path.name), reverse=True)


def _order(name: str) -> tuple[str, int, int]:
    day, clock, process, number = name.removesuffix(".json").split("-")
    return day + clock, int(process), int(number)


@dataclass(frozen=True, slots=True)
class FailureSummary:
    """One file in a list; ``damaged`` says why it cannot be read, the other texts are empty then."""

    name: str
    recorded: str = ""
    source: str = ""
    device: str = ""
    what: str = ""
    why: str = ""
    cores: tuple[int, ...] = ()
    tasks: int = 0
    damaged: str = ""


def kept_failures(folder: Path | None = None) -> list[FailureSummary]:
    """What the folder holds, newest first."""
    where = folder or failures_folder()
    return [_summary(path) for path in _paths(where)]


def _summary(path: Path) -> FailureSummary:
    try:
        document = read_failure(str(path))
    except OrkError as error:
        return FailureSummary(path.name, damaged=error.why or error.what)
    data = document["data"]
    return FailureSummary(
        path.name,
        recorded=data["recorded"],
        source=document["source"],
        device=data["device"],
        what=data["failure"]["what"],
        why=data["failure"]["why"],
        cores=tuple(job["core"] for job in data["jobs"]),
        tasks=sum(len(job["descriptors"]) for job in data["jobs"]),
    )


def read_failure(name: str) -> dict[str, Any]:
    """A failure's document by path, by its name in the state folder, or the newest for ``last``.

    Raises:
        UsageError: there is none of that name.
        DeniedError, InvalidFileError: it cannot be read, or is no record of a failure.
    """
    path = _place(name)
    with open_regular(path, "record of a failed NPU job", do="see `ork npu failures`") as stream:
        text = decoded(read_bounded(stream, MAX_FILE_BYTES, str(path)), str(path))
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidFileError(str(path), why=f"is not JSON: {error}") from None
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        raise InvalidFileError(str(path), why="is no record of a failed NPU job", do="see `ork npu failures`")
    try:
        _require_shape(document)
    except ValueError as error:
        raise InvalidFileError(str(path), why=f"is a damaged record: {error}") from None
    return document


def _place(name: str) -> Path:
    if name == "last":
        kept = _paths(failures_folder())
        if not kept:
            raise UsageError("no NPU job that failed is kept", do="see `ork npu failures`")
        return kept[0]
    named = name if name.endswith(".json") else f"{name}.json"
    ours = failures_folder() / named
    return ours if _NAME.fullmatch(named) and ours.exists() else Path(name)


def _text(value: Any) -> bool:
    return isinstance(value, str)


def _count(value: Any) -> bool:
    return type(value) is int and 0 <= value < 1 << 64


def _hex(value: Any) -> bool:
    return isinstance(value, str) and re.fullmatch(r"(0x)?[0-9a-f]{1,16}", value) is not None


def _table(value: Any) -> bool:
    return isinstance(value, dict)


def _list(value: Any) -> bool:
    return isinstance(value, list)


_Shape = Mapping[str, Callable[[Any], bool]]

_DOCUMENT: _Shape = {"source": _text, "data": _table}
_DATA: _Shape = {
    "recorded": _text,
    "device": _text,
    "soc": _text,
    "failure": _table,
    "jobs": _list,
    "buffers": _list,
    "buffers_in_all": _count,
    "modes": _table,
    "counters": _table,
    "words": _list,
}
_FAILURE: _Shape = {"what": _text, "why": _text}
_MODES: _Shape = {"last_mode": _text, "resets": _count}
_JOB: _Shape = {
    "core": _count,
    "core_mask": _hex,
    "flags": _text,
    "timeout_ms": _count,
    "domain": _count,
    "owner": _text,
    "submit": _table,
    "answer": _table,
    "descriptors": _list,
}
_DESCRIPTOR: _Shape = {
    "index": _count,
    "enable_mask": _hex,
    "int_mask": _hex,
    "int_status": _hex,
    "regcfg_amount": _count,
    "regcmd_addr": _hex,
    "words": _count,
}
_BUFFER: _Shape = {
    "handle": _count,
    "domain": _count,
    "iova": _hex,
    "size": _count,
    "flags": _hex,
    "kind": _text,
}


def _require_shape(document: dict[str, Any]) -> None:
    """Raises ValueError where what a reader uses is missing or of another kind."""
    _require(_DOCUMENT, document, "the document")
    data = document["data"]
    _require(_DATA, data, "data")
    _require(_FAILURE, data["failure"], "failure")
    _require(_MODES, data["modes"], "modes")
    if not all(map(_hex, data["words"])):
        raise ValueError("a word is no hex number of 64 bits")
    for job in data["jobs"]:
        _require(_JOB, job, "a job")
        for descriptor in job["descriptors"]:
            _require(_DESCRIPTOR, descriptor, "a descriptor")
            first = descriptor.get("first_word")
            if first is not None and (not _count(first) or first + descriptor["words"] > len(data["words"])):
                raise ValueError(f"descriptor {descriptor['index']} has no words there")
    for buffer in data["buffers"]:
        _require(_BUFFER, buffer, "a buffer")


def _require(shape: _Shape, found: Any, where: str) -> None:
    if not isinstance(found, dict):
        raise ValueError(f"{where} is no table")
    for key, fits in shape.items():
        if not fits(found.get(key)):
            raise ValueError(f"{key} of {where} is missing or of another kind")
