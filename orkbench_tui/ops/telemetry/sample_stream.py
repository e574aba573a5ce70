"""Lines of ``ork board watch --json`` to samples: of a pipe to another board, or of a recording.

A line is a JSON object with ``source``, ``data`` (the sample's document) and ``warnings``. New records of the
kernel log come as text in ``data.records``; the receiver classifies and counts them itself.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from orkbench_tui.ops.kernel_log.tracker import LogTracker
from orkbench_tui.ops.telemetry.sample import KernelLog, Sample
from orkbench_tui.ops.telemetry.sample_decode import sample_from
from orkbench_tui.ops.telemetry.sample_json import sample_document

__all__ = ["LogFollower", "decode", "parse_line", "stream_line", "stream_object", "watch_document"]


def watch_document(sample: Sample, records: Iterable[bytes] = ()) -> dict[str, Any]:
    """The sample's document; ``records``, if any, first."""
    texts = [record.decode("utf-8", "replace") for record in records]
    return {**({"records": texts} if texts else {}), **sample_document(sample, log_rows=0)}


def stream_object(sample: Sample, records: Iterable[bytes] = ()) -> dict[str, Any]:
    warnings = [{"id": "npu.load", "msg": text} for text in sample.warnings]
    return {"source": sample.source, "data": watch_document(sample, records), "warnings": warnings}


def stream_line(sample: Sample, records: Iterable[bytes] = ()) -> bytes:
    """One line with its end. ASCII, so that a cut line never ends inside a character."""
    return json.dumps(stream_object(sample, records), separators=(",", ":"), allow_nan=False).encode() + b"\n"


def parse_line(line: bytes) -> dict[str, Any]:
    """The object of one line, its ``data`` an object.

    Raises:
        ValueError: it is damaged, or no such line.
    """
    try:
        value = json.loads(line)
    except (RecursionError, UnicodeDecodeError) as error:
        raise ValueError(str(error)) from error
    if not isinstance(value, dict) or not isinstance(value.get("data"), dict):
        raise ValueError("no line of ork board watch --json")
    return value


class LogFollower:
    """What the kernel log adds up to while lines of one board come in."""

    def __init__(self) -> None:
        self._tracker = LogTracker()
        self._boot_id = ""

    def take(self, data: dict[str, Any]) -> KernelLog:
        """The log with the records of this document; another boot's begin anew.

        Raises:
            ValueError: the records are no texts.
        """
        board = data.get("board")
        boot_id = str(board.get("boot_id", "")) if isinstance(board, dict) else ""
        if boot_id and self._boot_id and boot_id != self._boot_id:
            self._tracker.restart()
        self._boot_id = boot_id or self._boot_id
        records = data.get("records") or []
        if not isinstance(records, list) or not all(isinstance(text, str) for text in records):
            raise ValueError("records are no texts")
        if records:
            self._tracker.feed(text.encode("utf-8", "replace") for text in records)
        return KernelLog(self._tracker.facts(), self._tracker.rows)

    def sample(self, value: dict[str, Any], *, source: str = "", detail: str | None = None) -> Sample:
        """The sample of a parsed line. ``source`` and ``detail`` are taken in place of what the line says.

        Raises:
            ValueError: the line is of another form.
        """
        log = self.take(value["data"])
        return decode(value, log, source=source, detail=detail)


def decode(value: dict[str, Any], log: KernelLog, *, source: str = "", detail: str | None = None) -> Sample:
    """The sample of a parsed line, with the log as it stood then."""
    entries = value.get("warnings") or []
    if not isinstance(entries, list):
        raise ValueError("warnings are no list")
    texts = tuple(str(entry.get("msg", "")) for entry in entries if isinstance(entry, dict))
    said = value.get("source")
    named = source or (said if isinstance(said, str) else "") or "board"
    return sample_from(value["data"], source=named, detail=detail, warnings=texts, log=log)
