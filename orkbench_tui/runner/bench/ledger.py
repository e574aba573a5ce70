"""Past results: one JSON row a line, appended and never rewritten."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from orkbench_tui.errors import InvalidFileError
from orkbench_tui.own_files import own_file_error
from orkbench_tui.runner.bench.record import Row, parse_row, row_document
from orkbench_tui.user_files import decoded, open_regular, read_bounded

__all__ = ["Ledger", "Loaded", "read_rows"]

_PURPOSE = "benchmark results"
_LIMIT = 64 << 20


@dataclass(frozen=True, slots=True)
class Loaded:
    """Rows of a file and why the others were left out, each reason once with its count."""

    rows: tuple[Row, ...]
    skipped: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Ledger:
    path: Path

    def append(self, rows: Sequence[Row]) -> None:
        """Add rows. Two programs at once take turns.

        Raises:
            DeniedError, NoMemoryError, InvalidFileError: the file cannot be written.
        """
        text = "".join(json.dumps(row_document(row), allow_nan=False) + "\n" for row in rows)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            handle = os.open(
                self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK, 0o600
            )
            try:
                fcntl.flock(handle, fcntl.LOCK_EX)
                size = os.fstat(handle).st_size
                if size and os.pread(handle, 1, size - 1) != b"\n":
                    # A writer was killed in mid-line: its row is lost, ours is not.
                    text = "\n" + text
                data = text.encode()
                while data:
                    data = data[os.write(handle, data) :]
            finally:
                os.close(handle)
        except OSError as error:
            raise own_file_error(error, self.path, _PURPOSE) from error

    def rows(self) -> Loaded:
        """All rows this version understands; none where nothing was kept yet."""
        return read_rows(self.path) if self.path.exists() else Loaded(())


def read_rows(path: Path) -> Loaded:
    """Rows of a results file: JSON lines, or the array ``-o json`` prints.

    Raises:
        UsageError, DeniedError: no such file, or it may not be read.
        InvalidFileError: nothing in it is a row.
    """
    with open_regular(path, "results file") as stream:
        text = decoded(read_bounded(stream, _LIMIT, str(path)), str(path))
    rows: list[Row] = []
    skipped: dict[str, int] = {}
    for document in _documents(text):
        try:
            if not isinstance(document, dict):
                raise InvalidFileError("a line is no row of benchmark results")
            rows.append(parse_row(document))
        except InvalidFileError as error:
            skipped[error.line()] = skipped.get(error.line(), 0) + 1
    notes = tuple(f"{count} left out: {why}" for why, count in skipped.items())
    if not rows:
        raise InvalidFileError(f"no results in {path}", why="; ".join(notes) or "it is empty")
    return Loaded(tuple(rows), notes)


def _documents(text: str) -> list[object]:
    if text.lstrip().startswith("["):
        try:
            found = json.loads(text)
        except (ValueError, RecursionError):
            return [None]
        return list(found) if isinstance(found, list) else [None]
    documents: list[object] = []
    for line in text.splitlines():
        if line.strip():
            try:
                documents.append(json.loads(line))
            except (ValueError, RecursionError):
                documents.append(None)
    return documents
