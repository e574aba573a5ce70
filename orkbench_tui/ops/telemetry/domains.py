"""Who occupies which address window of the NPU, as far as it can be known.

The stock driver exports no occupancy. Every process that uses our driver publishes its own in
``<occupancy folder>/<pid>.json``; those figures are reported by them, others' are not visible.
"""

from __future__ import annotations

import json
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = [
    "Counters",
    "Domain",
    "Publication",
    "Switches",
    "parse_publication",
    "parse_publication_value",
    "read_publications",
]

_MAX_BYTES = 64 << 10
_MAX_FILES = 256
_MAX_DOMAINS = 64


@dataclass(frozen=True, slots=True)
class Domain:
    """One IOMMU domain of one process, in bytes; None where an older process does not say."""

    id: int
    used_bytes: int
    buffers: int
    largest_free_bytes: int
    capacity_bytes: int
    holes: int | None = None
    imports: int | None = None
    imported_bytes: int | None = None
    anchors: int | None = None


@dataclass(frozen=True, slots=True)
class Switches:
    """Domain switches of one process; ``implicit`` are moves the kernel made for a call on a buffer."""

    total: int
    first_touch: int
    steady: int
    implicit: int


@dataclass(frozen=True, slots=True)
class Counters:
    """Totals since the process opened the NPU; ``hw_ns`` is time the hardware reported or the model predicts."""

    submits: int
    tasks: int
    hw_ns: int


@dataclass(frozen=True, slots=True)
class Publication:
    """What one process says about its use of the NPU. ``source`` is ``sim`` or ``board``."""

    pid: int
    command: str
    device: str
    source: str
    started_unix_s: float
    domains: tuple[Domain, ...]
    counters: Counters
    active_domain: int | None = None
    switches: Switches | None = None


def parse_publication(data: bytes) -> Publication | None:
    """None for anything that is not exactly such a document."""
    try:
        return parse_publication_value(json.loads(data))
    except (ValueError, RecursionError):
        return None


def parse_publication_value(value: Any) -> Publication:
    """The same from parsed JSON.

    Raises:
        ValueError: it is not exactly such a document.
    """
    try:
        if not isinstance(value, dict) or len(value["domains"]) > _MAX_DOMAINS:
            raise ValueError("no document of a process")
        return Publication(
            pid=_count(value["pid"]),
            command=_text(value["command"]),
            device=_text(value["device"]),
            source=_text(value["source"]),
            started_unix_s=_seconds(value),
            domains=tuple(_domain(entry) for entry in value["domains"]),
            counters=Counters(*(_count(value["counters"][name]) for name in ("submits", "tasks", "hw_ns"))),
            active_domain=_maybe(value, "active_domain"),
            switches=_switches(value["switches"]) if value.get("switches") is not None else None,
        )
    except (KeyError, TypeError, AttributeError, OverflowError) as error:
        raise ValueError(f"no document of a process: {error}") from error


def _seconds(value: dict[str, Any]) -> float:
    """Published as ``started``; a sample's document has the unit in the name."""
    return float(value["started"] if "started" in value else value["started_unix_s"])


def _domain(entry: dict[str, Any]) -> Domain:
    names = ("id", "used_bytes", "buffers", "largest_free_bytes", "capacity_bytes")
    more = ("holes", "imports", "imported_bytes", "anchors")
    return Domain(*(_count(entry[name]) for name in names), *(_maybe(entry, name) for name in more))


def _switches(entry: dict[str, Any]) -> Switches:
    return Switches(*(_count(entry[name]) for name in ("total", "first_touch", "steady", "implicit")))


def _maybe(entry: dict[str, Any], name: str) -> int | None:
    return None if entry.get(name) is None else _count(entry[name])


def _count(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << 63:
        raise ValueError("not a count")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str) or len(value) > 4096:
        raise ValueError("not a text")
    return value


def read_publications(folder: Path, source: str) -> tuple[Publication, ...]:
    """Publications of living processes of this user for ``source``, ordered by pid; other files are skipped."""
    found: list[Publication] = []
    try:
        names = sorted(entry.name for entry in os.scandir(folder) if entry.name.endswith(".json"))[
            :_MAX_FILES
        ]
    except OSError:
        return ()
    for name in names:
        pid = name.removesuffix(".json")
        if not (pid.isascii() and pid.isdigit() and len(pid) < 10) or not _alive(int(pid)):
            continue
        data = _read_own(folder / name)
        publication = parse_publication(data) if data else None
        if publication and publication.pid == int(pid) and publication.source == source:
            found.append(publication)
    return tuple(sorted(found, key=lambda item: item.pid))


def _alive(pid: int) -> bool:
    if pid <= 0:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _read_own(path: Path) -> bytes:
    """The file's bytes if it is a plain file of this user (or root) of sane size, else nothing."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        info = os.fstat(fd)
        if not stat.S_ISREG(info.st_mode) or info.st_uid not in (os.getuid(), 0) or info.st_size > _MAX_BYTES:
            return b""
        return os.read(fd, _MAX_BYTES)
    except OSError:
        return b""
    finally:
        os.close(fd)
