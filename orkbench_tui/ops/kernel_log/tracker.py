"""The kernel log followed live: new records only, counted and folded as they come."""

from __future__ import annotations

from collections.abc import Iterable

from orkbench_tui.ops.kernel_log.classify import classify
from orkbench_tui.ops.kernel_log.counting import Counter, LogFacts
from orkbench_tui.ops.kernel_log.folding import LogRow, fold
from orkbench_tui.ops.kernel_log.records import LogRecord, parse_kmsg

__all__ = ["LogTracker"]


class LogTracker:
    """Feeds on ``BoardFiles.kernel_log(after_sequence)`` and keeps counts and the newest rows."""

    def __init__(self, limit: int = 500) -> None:
        self._limit = limit
        self.restart()

    def restart(self) -> None:
        """Forget everything: the board booted again, or another board answers."""
        self.after_sequence = -1
        self._counter = Counter()
        self.rows: tuple[LogRow, ...] = ()

    def feed(self, blobs: Iterable[bytes]) -> list[LogRecord]:
        """Take raw records; those already seen are skipped. Returns the new ones."""
        fresh: list[LogRecord] = []
        for record in parse_kmsg(blobs):
            if record.sequence is not None and record.sequence > self.after_sequence:
                self.after_sequence = record.sequence
                fresh.append(record)
        items = [classify(record) for record in fresh]
        for item in items:
            self._counter.add(item)
        shown = [item for item in items if item.rule is not None]
        if shown:
            self.rows = tuple(fold(list(self.rows), shown, self._limit))
        return fresh

    def facts(self) -> LogFacts:
        return self._counter.facts()
