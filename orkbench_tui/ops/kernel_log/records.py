"""One kernel-log record, and the reader of ``/dev/kmsg`` records.

A raw record is ``priority,sequence,microseconds,flags[,caller=…];message`` followed by dictionary
lines that begin with a space. Bytes outside printable ASCII arrive as ``\\xNN``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

__all__ = ["LogRecord", "clean_message", "parse_kmsg", "unescape"]


@dataclass(frozen=True, slots=True)
class LogRecord:
    """A log line, whatever rendering it came from. What a rendering does not carry is None or "".

    ``ts_us`` counts microseconds since boot; ``wall`` is the time text of ``dmesg -T`` and iso forms;
    ``level`` is 0 (emergency) to 7 (debug); ``sequence`` numbers the records of one boot.
    """

    message: str
    ts_us: int | None = None
    sequence: int | None = None
    level: int | None = None
    facility: int | None = None
    caller: str = ""
    device: str = ""
    boot: str = ""
    wall: str = ""


_HEAD = re.compile(r"([0-9]{1,10}),([0-9]{1,19}),([0-9]{1,19}),([^;]*);(.*)", re.DOTALL)
_ESCAPE = re.compile(rb"\\x([0-9a-fA-F]{2})")
_ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")


def unescape(text: str) -> str:
    """``\\xNN`` escapes of kmsg turned back into bytes and read as UTF-8."""
    if "\\x" not in text:
        return text
    raw = _ESCAPE.sub(lambda found: bytes([int(found[1], 16)]), text.encode("utf-8", "surrogateescape"))
    return raw.decode("utf-8", "replace")


def clean_message(text: str) -> str:
    """A message without colour sequences and line ends; a leading tab of a continuation stays."""
    if "\x1b" in text:
        text = _ANSI.sub("", text)
    return text.rstrip("\r\n \t")


def _parse_head(line: str) -> LogRecord | None:
    found = _HEAD.fullmatch(line)
    if found is None:
        return None
    priority, sequence, ts_us, flags, message = found.groups()
    caller = next((part[7:] for part in flags.split(",") if part.startswith("caller=")), "")
    return LogRecord(
        message=clean_message(unescape(message)),
        ts_us=int(ts_us),
        sequence=int(sequence),
        level=int(priority) & 7,
        facility=int(priority) >> 3,
        caller=caller,
    )


def parse_kmsg(blobs: Iterable[bytes]) -> Iterator[LogRecord]:
    """Records of ``/dev/kmsg``: one read each, or several joined as a saved file has them.

    Lines that are neither a record nor a dictionary line are skipped.
    """
    for blob in blobs:
        record: LogRecord | None = None
        for line in blob.decode("utf-8", "replace").split("\n"):
            if line.startswith(" "):
                key, _, value = line[1:].partition("=")
                if record is not None and key == "DEVICE":
                    record = replace(record, device=unescape(value).lstrip("+"))
                continue
            if not line:
                continue
            if record is not None:
                yield record
            record = _parse_head(line[:16_384].rstrip("\r"))
        if record is not None:
            yield record
