"""Small readers of captured text: listings, file values, user ids, errors with a path."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

__all__ = [
    "Entry",
    "PathError",
    "User",
    "bounded_int",
    "parse_listing",
    "parse_user",
    "parse_values",
    "path_errors",
]


def bounded_int(text: str | None) -> int | None:
    """A decimal or 0x number of sane length, else None."""
    if text is None or len(text) > 20:
        return None
    try:
        return int(text, 0)
    except ValueError:
        try:
            return int(text, 10)
        except ValueError:
            return None


_VALUE = re.compile(r"^\s*(/(?:sys|proc|dev|boot|etc|lib)/[^\s=]+?)\s*(?::\s|:$|=|:(?=\S))\s*(.*)$")
_HEAD = re.compile(r"^==> (/\S+) <==$")


def parse_values(text: str) -> dict[str, str]:
    """``path: value`` lines, ``path=value``, or ``==> path <==`` blocks, as path → value."""
    values: dict[str, str] = {}
    block: str | None = None
    for line in text.splitlines():
        if head := _HEAD.match(line):
            block = head[1]
            values.setdefault(block, "")
        elif found := _VALUE.match(line[:8192]):
            block = None
            values[found[1]] = found[2].strip().strip("'\"")
        elif block is not None and line.strip():
            values[block] = (values[block] + "\n" + line.strip()).strip()
    return values


@dataclass(frozen=True, slots=True)
class Entry:
    """A name in a folder. ``kind`` is c, b, d, l, - or "" where the listing has names only."""

    name: str
    kind: str = ""
    mode: str = ""
    owner: str = ""
    group: str = ""
    size: int | None = None
    target: str = ""
    folder: str = ""


_LONG = re.compile(
    r"^(?P<kind>[bcdlps-])(?P<mode>[rwxsStT-]{9})[.+@]?\s+\d+\s+(?P<owner>\S+)\s+(?P<group>\S+)\s+"
    r"(?P<size>\d+(?:,\s*\d+)?[KMG]?)\s+(?P<date>\w{3}\s+\d{1,2}\s+[\d:]{4,5}|\d{4}-\d{2}-\d{2}(?:\s+[\d:.]+(?:\s+[+-]\d{4})?)?)\s+"
    r"(?P<name>.+)$"
)


def parse_listing(text: str, folder: str = "") -> tuple[Entry, ...]:
    """``ls -l`` or plain names; ``folder:`` heads switch the folder."""
    entries: list[Entry] = []
    for line in text.splitlines():
        line = line.rstrip()
        if asked := re.match(r"[$#]\s+ls\b.*\s(/\S+)$", line):
            folder = asked[1].rstrip("/")
            continue
        if not line or line.startswith(("total ", "#", "ls: ", "find: ", "$ ")):
            continue
        if re.fullmatch(r"/?\S*/?\S+:", line):
            folder = line[:-1]
            continue
        if found := _LONG.match(line[:4096]):
            name, _, target = found["name"].partition(" -> ")
            size = found["size"] if found["size"].isdigit() else None
            entries.append(
                Entry(
                    name,
                    found["kind"],
                    found["mode"],
                    found["owner"],
                    found["group"],
                    bounded_int(size),
                    target,
                    folder,
                )
            )
        elif line.startswith("/") and " " not in line:
            parent, _, name = line.rstrip("/").rpartition("/")
            entries.append(Entry(name, folder=parent))
        else:
            names, _, target = line.partition(" -> ")
            words = [names.strip()] if target else names.split()
            entries += [Entry(word.rstrip("/*@"), target=target, folder=folder) for word in words]
    return tuple(entries)


@dataclass(frozen=True, slots=True)
class User:
    uid: int | None
    name: str
    groups: frozenset[str]


_USER = re.compile(r"uid=(\d{1,10})(?:\(([^)]*)\))?")


def parse_user(text: str) -> User | None:
    """Output of ``id``; None when it is not one."""
    found = _USER.search(text)
    if found is None:
        return None
    return User(int(found[1]), found[2] or "", frozenset(re.findall(r"\d\(([^)]+)\)", text[found.end() :])))


@dataclass(frozen=True, slots=True)
class PathError:
    """``errno`` is a name as in errno.h; ``line`` the text it was found in."""

    path: str
    errno: str
    line: str


_ERRNO_TEXTS = {
    "permission denied": "EACCES",
    "operation not permitted": "EPERM",
    "no such file or directory": "ENOENT",
    "no such device": "ENODEV",
    "device or resource busy": "EBUSY",
    "eacces": "EACCES",
    "eperm": "EPERM",
    "enoent": "ENOENT",
    "enodev": "ENODEV",
    "ebusy": "EBUSY",
}
_ERRNO = re.compile("|".join(_ERRNO_TEXTS), re.IGNORECASE)
_PATH = re.compile(r"/(?:sys|proc|dev|boot|lib)(?:/[^\s'\"`:,;)\]]+)*")


def path_errors(text: str) -> Iterator[PathError]:
    """Lines that name a path of the board and an errno text."""
    for line in text.splitlines():
        error = _ERRNO.search(line[:4096])
        if error and (path := _PATH.search(line[:4096])):
            yield PathError(path[0].rstrip("."), _ERRNO_TEXTS[error[0].lower()], line)
