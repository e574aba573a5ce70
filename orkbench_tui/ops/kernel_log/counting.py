"""What a log adds up to: incidents, not lines.

A hang prints four to six lines and counts once, by its ``failed to wait job`` line; a reset counts by its
own line and never by the ``num`` in it. Totals are totals only if the log reaches back to boot without
a gap; otherwise they are lower bounds and say so.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from orkbench_tui.ops.kernel_log.boots import split_boots
from orkbench_tui.ops.kernel_log.classify import Classified
from orkbench_tui.ops.kernel_log.rules import Severity

__all__ = ["Counter", "LogFacts", "count"]

_FORCED_WITHIN_US = 300_000
_SAME_HANG_WITHIN_US = 1_000_000
_BOOT_STARTS_WITHIN_US = 100_000


@dataclass(frozen=True, slots=True)
class LogFacts:
    """Counts over one boot's records. Times are microseconds since boot, None where unknown.

    ``resets_forced`` are the resets that follow a dropped job; the rest were asked for by software or by
    the clean-up of an asynchronous job. ``page_faults_suppressed`` are faults the kernel did not print.
    """

    records: int = 0
    resets: int = 0
    resets_forced: int = 0
    hangs: int = 0
    interrupted: int = 0
    aborts: int = 0
    uncommitted: int = 0
    irq_mismatches: int = 0
    switches: int = 0
    switch_timeouts: int = 0
    leaked_objects: int = 0
    leaked_bytes: int = 0
    iova_failures: int = 0
    memory_failures: int = 0
    page_faults: int = 0
    page_faults_suppressed: int = 0
    unmap_warnings: int = 0
    hung_tasks: int = 0
    oom_kills: int = 0
    cma_failures: int = 0
    unknown_npu: int = 0
    problems: int = 0
    boots: int = 0
    last_reset_us: int | None = None
    last_hang_us: int | None = None
    first_us: int | None = None
    lower_bound: bool = True
    lost_records: bool = False


_SIMPLE = {
    "interrupted": "interrupted",
    "abort": "aborts",
    "uncommitted": "uncommitted",
    "irq_mismatch": "irq_mismatches",
    "switch": "switches",
    "switch_timeout": "switch_timeouts",
    "iova": "iova_failures",
    "no_memory": "memory_failures",
    "page_fault": "page_faults",
    "unmap_warning": "unmap_warnings",
    "hung_task": "hung_tasks",
    "oom": "oom_kills",
    "cma": "cma_failures",
}


class Counter:
    """Counts records as they come; starts again when another boot's records begin."""

    def __init__(self) -> None:
        self._boots = 0
        self._boot = ""
        self._restart()

    def _restart(self) -> None:
        self._totals: dict[str, int] = {}
        self._records = 0
        self._first_us: int | None = None
        self._complete = False
        self._lost = False
        self._sequence: int | None = None
        # The last line of a hang that waits for the line that belongs to it; None: no such line.
        self._open_wait: Classified | None = None
        self._open_timeout: Classified | None = None
        self._last_hang_us: int | None = None
        self._last_reset_us: int | None = None

    def _add(self, name: str, amount: int = 1) -> None:
        self._totals[name] = self._totals.get(name, 0) + amount

    def add(self, item: Classified) -> None:
        record = item.record
        if self._records and self._is_new_boot(item):
            self._restart()
        if self._records == 0:
            self._boots += 1
            self._boot = record.boot
            self._first_us = record.ts_us
            self._complete = record.sequence == 0 or (
                record.ts_us is not None and record.ts_us < _BOOT_STARTS_WITHIN_US
            )
        self._records += 1
        if record.sequence is not None:
            self._lost |= self._sequence is not None and record.sequence > self._sequence + 1
            self._sequence = record.sequence
        if item.rule is None:
            return
        if item.severity >= Severity.WARNING:
            self._add("problems")
        if item.rule.id == "npu.unknown":
            self._add("unknown_npu")
        self._add_kind(item)

    def _is_new_boot(self, item: Classified) -> bool:
        record = item.record
        if record.boot or self._boot:
            return record.boot != self._boot
        return record.sequence is not None and self._sequence is not None and record.sequence < self._sequence

    def _add_kind(self, item: Classified) -> None:
        now, kind = item.record.ts_us, item.kind
        if kind in _SIMPLE:
            self._add(_SIMPLE[kind])
        elif kind == "hang":
            self._add("hangs")
            self._last_hang_us, self._open_wait = now, item
        elif kind == "timeout":
            if not _follows(self._open_wait, now, _SAME_HANG_WITHIN_US):
                self._add("hangs")
                self._last_hang_us = now
            self._open_wait, self._open_timeout = None, item
        elif kind == "core":
            self._open_timeout = item
        elif kind == "reset":
            self._add("resets")
            self._last_reset_us = now
            if _follows(self._open_timeout, now, _FORCED_WITHIN_US):
                self._add("resets_forced")
            self._open_timeout = None
        elif kind == "leak":
            self._add("leaked_objects")
            self._add("leaked_bytes", _integer(item.figures.get("bytes")))
        elif kind == "page_fault_suppressed":
            self._add("page_faults_suppressed", _integer(item.figures.get("count")))

    def facts(self) -> LogFacts:
        return LogFacts(
            records=self._records,
            boots=self._boots,
            last_reset_us=self._last_reset_us,
            last_hang_us=self._last_hang_us,
            first_us=self._first_us,
            lower_bound=not self._complete or self._lost,
            lost_records=self._lost,
            **self._totals,
        )


def count(items: Iterable[Classified]) -> LogFacts:
    """Counts of the newest boot in ``items``, which are in log order."""
    kept = list(items)
    *earlier, newest = split_boots(item.record for item in kept)
    counter = Counter()
    for item in kept[len(kept) - len(newest) :]:
        counter.add(item)
    facts = counter.facts()
    return replace(facts, boots=len(earlier) + facts.boots)


def _follows(earlier: Classified | None, now: int | None, limit: int) -> bool:
    if earlier is None:
        return False
    then = earlier.record.ts_us
    # dmesg -T has no usable clock; there the order of the lines has to do.
    return now is None or then is None or 0 <= now - then <= limit


def _integer(text: str | None) -> int:
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 20 else 0
