"""A log of several boots cut into boots."""

from __future__ import annotations

import re
from collections.abc import Iterable

from orkbench_tui.ops.kernel_log.records import LogRecord

__all__ = ["split_boots"]

_FIRST_LINE = re.compile(r"^(?:Booting Linux on physical CPU|Linux version \d)")
_BACK_US = 30_000_000


def split_boots(records: Iterable[LogRecord]) -> list[list[LogRecord]]:
    """Boots in the order of the log, at least one (maybe empty).

    A boot begins with another boot id, a sequence number that falls, the first line a kernel prints, or a
    clock that falls back by more than half: joined logs are not sorted to the second.
    """
    boots: list[list[LogRecord]] = [[]]
    newest_us = 0
    for record in records:
        current = boots[-1]
        if current and _starts_boot(current, record, newest_us):
            current = []
            boots.append(current)
            newest_us = 0
        current.append(record)
        newest_us = max(newest_us, record.ts_us or 0)
    return boots


def _starts_boot(current: list[LogRecord], record: LogRecord, newest_us: int) -> bool:
    last = current[-1]
    if record.boot or last.boot:
        return record.boot != last.boot
    if record.sequence is not None and last.sequence is not None:
        return record.sequence < last.sequence
    if _FIRST_LINE.match(record.message):
        return not all(_is_start(item) for item in current)
    return record.ts_us is not None and newest_us - record.ts_us > _BACK_US and record.ts_us * 2 < newest_us


def _is_start(record: LogRecord) -> bool:
    """The lines before ``Linux version`` of the same boot."""
    return record.ts_us in (0, None) and _FIRST_LINE.match(record.message) is not None
