"""What of an unfinished pack is known to be written, so that a build goes on after a kill.

A file beside the unfinished pack: one JSON line that names the build, then for each finished weight a JSON
line and its scales as they stand. A record that is cut short ends the list.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

__all__ = ["Journal", "Written"]


@dataclass(frozen=True, slots=True)
class Written:
    """A weight whose ``size`` bytes of tiles lie at ``offset`` and have this checksum."""

    name: str
    offset: int
    size: int
    crc: int
    scales: bytes


class Journal:
    """``build`` names source, scheme and format; a journal of another build is emptied."""

    def __init__(self, path: Path, build: str) -> None:
        self.path = path
        self._build = build
        self._known = self._read()
        self._kept = list(self._known)
        self._handle: BinaryIO | None = None if self._known else self._begin([])

    @property
    def resumes(self) -> bool:
        """Whether an earlier build left something to go on from."""
        return bool(self._kept)

    def next(self, name: str, offset: int, size: int) -> Written | None:
        """The next record where it is of this very weight; None ends the replay and drops what follows."""
        if self._handle is not None:
            return None
        index = len(self._kept) - len(self._known)
        record = self._known[0] if self._known else None
        if record is None or (record.name, record.offset, record.size) != (name, offset, size):
            self.stop(index)
            return None
        self._known.pop(0)
        return record

    def stop(self, count: int) -> None:
        """Only the first ``count`` records hold."""
        self._handle = self._begin(self._kept[:count])
        self._known = []

    @property
    def replayed(self) -> int:
        return len(self._kept) - len(self._known)

    def add(self, record: Written) -> None:
        if self._handle is None:
            self.stop(self.replayed)
        assert self._handle is not None
        self._handle.write(_record_bytes(record))
        self._handle.flush()

    def close(self, *, remove: bool) -> None:
        if self._handle is not None:
            self._handle.close()
        if remove:
            self.path.unlink(missing_ok=True)

    def _begin(self, records: list[Written]) -> BinaryIO:
        fresh = self.path.with_name(self.path.name + ".new")
        handle = fresh.open("wb")
        handle.write(json.dumps({"build": self._build}).encode() + b"\n")
        for record in records:
            handle.write(_record_bytes(record))
        handle.flush()
        fresh.replace(self.path)
        return handle

    def _read(self) -> list[Written]:
        try:
            data = self.path.read_bytes()
        except OSError:
            return []
        records: list[Written] = []
        try:
            line, _, rest = data.partition(b"\n")
            if json.loads(line) != {"build": self._build}:
                return []
            while rest:
                line, newline, rest = rest.partition(b"\n")
                fields = json.loads(line)
                scales = rest[: fields["scales"]]
                if not newline or len(scales) != fields["scales"]:
                    break
                rest = rest[len(scales) :]
                records.append(
                    Written(fields["name"], fields["offset"], fields["size"], fields["crc"], scales)
                )
        except (ValueError, KeyError, TypeError):
            pass
        return records


def _record_bytes(record: Written) -> bytes:
    fields = {
        "name": record.name,
        "offset": record.offset,
        "size": record.size,
        "crc": record.crc,
        "scales": len(record.scales),
    }
    return json.dumps(fields).encode() + b"\n" + record.scales
