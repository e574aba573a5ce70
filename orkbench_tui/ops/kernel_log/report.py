"""A classified log as text and as JSON: the rows of ``ork board log``."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from orkbench_tui.ops.kernel_log.classify import Classified
from orkbench_tui.ops.kernel_log.counting import LogFacts
from orkbench_tui.ops.kernel_log.folding import LogRow, fold
from orkbench_tui.plain_text import one_line

__all__ = ["item_document", "log_document", "log_lines"]


def item_document(item: Classified) -> dict[str, Any]:
    """One record with its class; null for what the log's form does not carry."""
    record, rule = item.record, item.rule
    return {
        "ts_us": record.ts_us,
        "time": record.wall or None,
        "sequence": record.sequence,
        "level": record.level,
        "class": rule.id if rule else None,
        "severity": item.severity.word,
        "message": record.message,
        "figures": item.figures,
        "meaning": rule.meaning if rule else None,
        "printed_by": rule.source if rule else None,
        "next_step": (rule.next_step or None) if rule else None,
    }


def log_document(items: Sequence[Classified], facts: LogFacts) -> dict[str, Any]:
    """Counts first, then every record."""
    return {"counts": dataclasses.asdict(facts), "records": [item_document(item) for item in items]}


def log_lines(items: Sequence[Classified], facts: LogFacts | None) -> list[str]:
    """Folded rows, and with ``facts`` a closing summary. Each class is explained where it first occurs."""
    rows = fold([], items, limit=max(1, len(items)))
    lines: list[str] = []
    explained: set[str] = set()
    for row in rows:
        lines.append(_row_line(row))
        if row.rule_id and row.severity > 1 and row.rule_id not in explained:
            explained.add(row.rule_id)
            lines.append(f"{'':<15}{row.meaning}" + (f"; next: {row.next_step}" if row.next_step else ""))
    if facts is not None:
        lines += _summary(facts, bool(rows))
    return lines


def _row_line(row: LogRow) -> str:
    if row.last_us is not None:
        when = f"{row.last_us / 1e6:14.6f}"
    else:
        when = f"{one_line(row.wall, 24) or '?':>14}"
    count = f" x{row.count}" if row.count > 1 else ""
    return f"{when} {row.severity.word:<8} {row.rule_id or '-'}{count}: {one_line(row.message)}"


def _summary(facts: LogFacts, any_rows: bool) -> list[str]:
    if not facts.records:
        return ["the log is empty"]
    if not any_rows:
        return [f"{facts.records} lines, none about the NPU"]
    prefix = "at least " if facts.lower_bound else ""
    counts = [
        (facts.hangs, "jobs timed out"),
        (facts.resets, "resets"),
        (facts.interrupted, "jobs interrupted by a signal"),
        (facts.switch_timeouts, "domain switches timed out"),
        (facts.iova_failures, "address windows full"),
        (facts.page_faults + facts.page_faults_suppressed, "page faults"),
        (facts.leaked_objects, "buffers leaked"),
        (facts.unknown_npu, "lines no rule knows"),
    ]
    if not any(value for value, _ in counts) and facts.problems:
        counts = [(facts.problems, "lines of warning or worse")]
    said = ", ".join(f"{name}: {value}" for value, name in counts if value) or "no trouble"
    tail = "; the log does not reach back to boot" if facts.lower_bound else " since boot"
    if facts.lost_records:
        tail = "; records were lost in between"
    boots = f" ({facts.boots} boots, the last is counted)" if facts.boots > 1 else ""
    return [f"{prefix if said != 'no trouble' else ''}{said}{tail}{boots}"]
