"""Saved kernel logs in any rendering: dmesg (plain, -r, -x, -T, iso, json), journalctl json, syslog, kmsg.

``parse_log`` looks at every line on its own, so that a file of mixed or damaged lines still yields
what it holds. A line of no known form becomes a record with a message and nothing else.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

from orkbench_tui.ops.kernel_log.records import LogRecord, clean_message, parse_kmsg

__all__ = ["parse_log"]

_LEVELS = {
    "emerg": 0,
    "alert": 1,
    "crit": 2,
    "err": 3,
    "warn": 4,
    "warning": 4,
    "notice": 5,
    "info": 6,
    "debug": 7,
}
_FACILITIES = {"kern": 0, "user": 1, "mail": 2, "daemon": 3, "auth": 4, "syslog": 5}

# `dmesg -d` adds the time since the line before, CONFIG_PRINTK_CALLER the caller.
_STAMP = (
    r"\[\s*(?P<s>[0-9]{1,12})\.(?P<f>[0-9]{1,9})(?:\s+<\s*[0-9.]{1,20}>)?\]"
    r"(?:\[\s*(?P<caller>[TC][0-9]+)\])?\s?"
)
# `journalctl -o short-monotonic` names the host behind the stamp.
_PLAIN = re.compile(_STAMP + r"(?:[\w.-]{1,64} kernel: ?)?(?P<message>.*)", re.DOTALL)
_RAW = re.compile(r"<(?P<pri>[0-9]{1,4})>\s*(?:" + _STAMP + r")?(?P<message>.*)", re.DOTALL)
_DECODED = re.compile(
    r"(?P<fac>[a-z0-9]+)\s*:(?P<lev>[a-z]+)\s*:\s*(?:" + _STAMP + r"|\[(?P<wall>[^\]]+)\]\s?)(?P<message>.*)",
    re.DOTALL,
)
_CTIME = re.compile(
    r"\[(?P<wall>[A-Z]\w{2} [A-Z]\w{2}\s+[0-9]{1,2} [0-9:]{8} [0-9]{4})\]\s?(?P<message>.*)", re.DOTALL
)
_ISO = re.compile(
    r"(?P<wall>[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}[.,][0-9]{1,9}[+-][0-9:]{4,6})\s(?P<message>.*)", re.DOTALL
)
# `dmesg -e`: a date to the minute, then differences.
_RELATIVE = re.compile(
    r"\[(?P<wall>[A-Z][a-z]{2}\s?[0-9]{1,2} [0-9:]{5}|\s*\+[0-9.]{1,20}|<\s*[0-9.]{1,20}>)\]\s?(?P<message>.*)",
    re.DOTALL,
)
# `talosctl dmesg`, with or without the node's address in front.
_TALOS = re.compile(
    r"(?:[0-9a-fA-F.:]{2,45}: )?(?P<fac>[a-z0-9]+):\s+(?P<lev>[a-z]+): \[(?P<wall>[^\]]{1,40})\]: (?P<message>.*)",
    re.DOTALL,
)
_SYSLOG = re.compile(
    r"(?P<wall>[A-Z]\w{2}\s+[0-9]{1,2} [0-9:]{8}(?:[.,][0-9]{1,9})?|[0-9]{4}-[0-9]{2}-[0-9]{2}T\S+) \S+ kernel:\s*(?:"
    + _STAMP
    + r")?(?P<message>.*)",
    re.DOTALL,
)
_FORMS = (_PLAIN, _RAW, _DECODED, _CTIME, _SYSLOG, _ISO, _RELATIVE, _TALOS)
# The kernel prints less than 1 KiB a line; what is longer is damage and is not searched.
_MAX_LINE = 16_384
_KMSG_LINE = re.compile(r"[0-9]{1,10},[0-9]{1,19},[0-9]{1,19},[^;]{1,60};")
_ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")


def parse_log(data: bytes) -> list[LogRecord]:
    """The records of a saved log in the order of the file; never raises on damaged input."""
    text = data.decode("utf-8", "replace").replace("\r\n", "\n")
    head = text.lstrip()[:1]
    if head == "{" and (document := _load(text)) is not None and isinstance(document.get("dmesg"), list):
        return list(_dmesg_json(document["dmesg"]))
    if _KMSG_LINE.match(text.lstrip("\n")):
        return list(parse_kmsg([data]))
    return [record for line in text.split("\n") if (record := _line(line)) is not None]


def _line(line: str) -> LogRecord | None:
    line = line[:_MAX_LINE]
    if "\x1b" in line:
        line = _ANSI.sub("", line)
    if not line.strip():
        return None
    if line.startswith("{") and (entry := _load(line)) is not None and "MESSAGE" in entry:
        return _journal_entry(entry)
    for form in _FORMS:
        if found := form.fullmatch(line):
            return _from_groups(found.groupdict())
    return LogRecord(message=clean_message(line))


def _from_groups(groups: dict[str, str | None]) -> LogRecord:
    ts_us = None
    if groups.get("s"):
        ts_us = int(groups["s"] or 0) * 1_000_000 + int((groups["f"] or "0").ljust(6, "0")[:6])
    level = facility = None
    if pri := groups.get("pri"):
        level, facility = int(pri) & 7, int(pri) >> 3
    if lev := groups.get("lev"):
        level, facility = _LEVELS.get(lev), _FACILITIES.get(groups.get("fac") or "")
    return LogRecord(
        message=clean_message(groups["message"] or ""),
        ts_us=ts_us,
        level=level,
        facility=facility,
        caller=groups.get("caller") or "",
        wall=groups.get("wall") or "",
    )


def _load(text: str) -> dict[str, Any] | None:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _dmesg_json(entries: list[Any]) -> Iterator[LogRecord]:
    for entry in entries:
        if not isinstance(entry, dict) or not isinstance(entry.get("msg"), str):
            continue
        # util-linux 2.38.1 with -F puts the rest of the file behind the first line of every message.
        message = entry["msg"].split("\n", 1)[0]
        pri, time = entry.get("pri"), entry.get("time")
        level = pri & 7 if isinstance(pri, int) else _LEVELS.get(str(pri))
        stamp = _microseconds(time, 1e6) if isinstance(time, int | float) else None
        facility = _FACILITIES.get(str(entry.get("fac", "")))
        yield LogRecord(message=clean_message(message), ts_us=stamp, level=level, facility=facility)


def _journal_entry(entry: dict[str, Any]) -> LogRecord | None:
    if entry.get("_TRANSPORT", "kernel") != "kernel":
        return None
    message = entry["MESSAGE"]
    if isinstance(message, list):
        message = bytes(b for b in message if isinstance(b, int) and 0 <= b < 256).decode("utf-8", "replace")
    stamp = entry.get("_SOURCE_MONOTONIC_TIMESTAMP", entry.get("__MONOTONIC_TIMESTAMP"))
    return LogRecord(
        message=clean_message(str(message).split("\n", 1)[0]),
        ts_us=_number(stamp, lambda text: _microseconds(float(text), 1.0)),
        level=_number(entry.get("PRIORITY"), lambda text: int(text) & 7),
        facility=_number(entry.get("SYSLOG_FACILITY"), int),
        device=str(entry.get("_KERNEL_DEVICE", "")).lstrip("+"),
        boot=str(entry.get("_BOOT_ID", "")),
    )


def _number(value: object, convert: Callable[[str], int | None]) -> int | None:
    try:
        return convert(str(value))
    except ValueError:
        return None


def _microseconds(value: float, scale: float) -> int | None:
    """Microseconds since boot, or None for what no clock can show (infinite, negative, absurd)."""
    return round(value * scale) if 0 <= value * scale < 1e18 else None
