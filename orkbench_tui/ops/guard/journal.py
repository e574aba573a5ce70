"""The write-ahead journal: one JSON-lines file per run of an operation, each line on the disk before the effect.

Lines: ``begin`` (with the whole plan), then per step ``intent`` (with the value found) and ``done`` or ``failed``,
``undo`` and ``undone`` per step taken back, and ``end`` with the outcome. A file without ``end`` was interrupted.
"""

from __future__ import annotations

import json
import os
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from orkbench_tui.errors import InvalidFileError, NoMemoryError, OrkError, RefusedError
from orkbench_tui.ops.guard.declaration import Plan, Step
from orkbench_tui.ops.guard.effects import Effects
from orkbench_tui.own_files import own_file_error

__all__ = ["VERSION", "Journal", "Run", "begin", "folder", "history", "interrupted", "read_run", "readable"]

VERSION = 1
_MAX_BYTES = 4 << 20
_PURPOSE = "the journal of operations"


def folder(state: Path) -> Path:
    return state / "journal"


@dataclass(frozen=True, slots=True)
class Journal:
    """A run being written."""

    path: Path
    effects: Effects

    def write(self, event: str, **fields: Any) -> None:
        """One more line.

        Raises:
            NoMemoryError, DeniedError, InvalidFileError: it is not on the disk, so what it announces must not be done.
        """
        line = json.dumps({"event": event, "unix_s": round(time.time(), 3), **fields}, ensure_ascii=False)
        try:
            self.effects.record(self.path, line.encode() + b"\n")
        except OSError as error:
            refused = own_file_error(error, self.path, _PURPOSE)
            if event == "begin":
                raise refused from error
            # Where the journal lies must not change now: what was begun is told nowhere else.
            way = "free some" if isinstance(refused, NoMemoryError) else "see that it can be written"
            raise type(refused)(
                refused.what, why=refused.why, do=f"stopped in the middle: {way}, then run `ork board resume`"
            ) from error


@dataclass(frozen=True, slots=True)
class Run:
    """A journal as read. ``intents`` holds the value found before each step that was at least begun; of those
    ``done`` worked and ``failed`` did not, and in the middle of others the process was stopped.
    """

    path: Path
    id: str
    operation: str
    words: Mapping[str, str]
    host: str
    source: str
    boot_id: str
    who: str
    started: float
    steps: tuple[Step, ...]
    intents: Mapping[int, str | None]
    done: frozenset[int]
    failed: frozenset[int]
    undone: frozenset[int]
    outcome: str
    text: str
    torn: bool

    @property
    def open(self) -> bool:
        return not self.outcome


def begin(state: Path, effects: Effects, plan: Plan, *, source: str, boot_id: str) -> Journal:
    """A new journal with its first line written. Raises as ``Journal.write`` does; nothing was changed then."""
    where = folder(state)
    try:
        where.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise own_file_error(error, where, _PURPOSE) from error
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S%f")
    identity = f"{stamp}-{plan.operation.name}-{secrets.token_hex(2)}"
    journal = Journal(where / f"{identity}.jsonl", effects)
    journal.write(
        "begin",
        version=VERSION,
        id=identity,
        operation=plan.operation.name,
        words=dict(plan.words),
        host=plan.host,
        source=source,
        boot_id=boot_id,
        who=_who(),
        steps=[step.document() for step in plan.steps],
    )
    return journal


def _who() -> str:
    name = os.environ.get("SUDO_USER") or os.environ.get("USER") or str(os.getuid())
    address = os.environ.get("SSH_CONNECTION", "").split(" ")[0]
    return f"{name} from {address}" if address else name


def read_run(path: Path) -> Run | None:
    """A run from its file; None when the process ended before the first line was whole, so that nothing was done.

    Raises:
        RefusedError: written by a newer version.
        InvalidFileError: damaged before its end.
    """
    if not path.is_file():
        raise _damaged(path, "it is no regular file")
    with path.open("rb") as file:
        data = file.read(_MAX_BYTES)
    *lines, rest = data.split(b"\n")
    events = [_event(path, number, line) for number, line in enumerate(lines, 1)]
    if not events:
        return None
    head = events[0]
    version = head.get("version")
    if not isinstance(version, int) or version > VERSION:
        raise RefusedError(
            f"the journal {path.name} is of version {version!r}",
            why=f"this program reads up to version {VERSION}",
            do="use the newer ork that wrote it; nothing was changed",
        )
    try:
        return _run(path, head, events[1:], bool(rest))
    except (KeyError, TypeError, ValueError) as error:
        raise _damaged(path, f"{type(error).__name__} {error}") from error


def _damaged(path: Path, why: str) -> InvalidFileError:
    return InvalidFileError(
        f"the journal {path} is damaged", why=why, do="look at what it names, then move the file away"
    )


def _event(path: Path, number: int, line: bytes) -> dict[str, Any]:
    try:
        event = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise _damaged(path, f"line {number}: {error}") from error
    if not isinstance(event, dict) or not isinstance(event.get("event"), str):
        raise _damaged(path, f"line {number} is no event")
    return event


def _run(path: Path, head: dict[str, Any], events: list[dict[str, Any]], torn: bool) -> Run:
    steps = tuple(Step.parsed(step) for step in head["steps"])
    numbers: dict[str, list[int]] = {"intent": [], "done": [], "failed": [], "undone": []}
    found: dict[int, str | None] = {}
    end: dict[str, Any] = {}
    for event in events:
        kind = event["event"]
        if kind in numbers:
            number = event["step"]
            if not isinstance(number, int) or not 0 <= number < len(steps):
                raise ValueError(f"step {number!r}")
            numbers[kind].append(number)
            if kind == "intent":
                found[number] = event["found"]
        elif kind == "end":
            end = event
    return Run(
        path=path,
        id=str(head["id"]),
        operation=str(head["operation"]),
        words={str(key): str(value) for key, value in head["words"].items()},
        host=str(head["host"]),
        source=str(head["source"]),
        boot_id=str(head["boot_id"]),
        who=str(head["who"]),
        started=float(head["unix_s"]),
        steps=steps,
        intents=found,
        done=frozenset(numbers["done"]),
        failed=frozenset(numbers["failed"]),
        undone=frozenset(numbers["undone"]),
        outcome=str(end.get("outcome", "")),
        text=str(end.get("text", "")),
        torn=torn,
    )


def history(state: Path) -> list[Run]:
    """All runs, oldest first. Raises as ``read_run``."""
    runs = [read_run(path) for path in sorted(folder(state).glob("*.jsonl"))]
    return [run for run in runs if run is not None]


def readable(state: Path) -> tuple[list[Run], list[OrkError]]:
    """The runs that can be read, oldest first, and what is wrong with each of the others: for showing, not for acting."""
    runs: list[Run] = []
    wrong: list[OrkError] = []
    for path in sorted(folder(state).glob("*.jsonl")):
        try:
            run = read_run(path)
        except OrkError as error:
            wrong.append(error)
        else:
            runs += [run] if run is not None else []
    return runs, wrong


def interrupted(state: Path, source: str) -> list[Run]:
    """Runs on boards of this source that did not come to an end."""
    return [run for run in history(state) if run.open and run.source == source]
