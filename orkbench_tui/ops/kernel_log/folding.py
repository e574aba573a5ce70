"""Rows for people: repeats folded, blocks of one incident kept together, raw text one step away."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from orkbench_tui.ops.kernel_log.classify import Classified
from orkbench_tui.ops.kernel_log.rules import Severity

__all__ = ["LogRow", "fold"]


@dataclass(frozen=True, slots=True)
class LogRow:
    """One line of a log view. ``count`` lines of one class in a row, the last of them as ``message``."""

    rule_id: str
    severity: Severity
    message: str
    meaning: str
    next_step: str
    count: int = 1
    first_us: int | None = None
    last_us: int | None = None
    wall: str = ""


def _row(item: Classified) -> LogRow:
    record, rule = item.record, item.rule
    return LogRow(
        rule_id=rule.id if rule else "",
        severity=item.severity,
        message=record.message,
        meaning=rule.meaning if rule else "",
        next_step=rule.next_step if rule else "",
        first_us=record.ts_us,
        last_us=record.ts_us,
        wall=record.wall,
    )


def _folds(last: LogRow, row: LogRow) -> bool:
    if not row.rule_id or row.rule_id != last.rule_id:
        return False
    # Lines no rule knows may differ in what matters.
    return row.rule_id != "npu.unknown" or row.message == last.message


def fold(rows: list[LogRow], items: Iterable[Classified], limit: int = 500) -> list[LogRow]:
    """``rows`` continued with ``items``: consecutive lines of one class become one row. Newest last."""
    result = list(rows)
    for item in items:
        row = _row(item)
        if result and _folds(result[-1], row):
            last = result[-1]
            result[-1] = replace(
                last,
                count=last.count + 1,
                message=row.message,
                last_us=row.last_us,
                wall=row.wall or last.wall,
            )
        else:
            result.append(row)
    return result[-limit:]
