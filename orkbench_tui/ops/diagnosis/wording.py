"""How rules quote evidence and word what they share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from orkbench_tui.ops.diagnosis.classes import CLASSES
from orkbench_tui.ops.diagnosis.verdict import Level, Verdict
from orkbench_tui.ops.kernel_log.classify import Classified
from orkbench_tui.ops.kernel_log.records import LogRecord
from orkbench_tui.ops.telemetry.holders import Holder
from orkbench_tui.plain_text import one_line

__all__ = ["REFUSE_KILL", "VOID", "make", "name_holders", "quote", "quotes", "sigterm"]

_SEVERITY = {entry.name: entry.severity for entry in CLASSES}

REFUSE_KILL = "kill -9 a process with a job in flight"
VOID = "the answer in progress and its speed figure are void: run it again after the repair"
_MAX_QUOTES = 6


def make(
    kind: str,
    title: str,
    *,
    evidence: Iterable[str] = (),
    advice: Iterable[str] = (),
    refuse: Iterable[str] = (),
    facts: dict[str, Any] | None = None,
    severity: Level | None = None,
) -> Verdict:
    """A verdict with the severity of its class unless told otherwise; empty texts are left out."""
    return Verdict(
        kind,
        _SEVERITY[kind] if severity is None else severity,
        title,
        tuple(one_line(text, 300) for text in evidence if text),
        tuple(text for text in advice if text),
        tuple(text for text in refuse if text),
        facts or {},
    )


def quote(record: LogRecord) -> str:
    """A log line with its time, as plain dmesg prints it."""
    if record.ts_us is not None:
        stamp = f"[{record.ts_us // 1_000_000:5}.{record.ts_us % 1_000_000:06}] "
    else:
        stamp = f"[{record.wall}] " if record.wall else ""
    return stamp + record.message


def quotes(items: Sequence[Classified], limit: int = _MAX_QUOTES) -> list[str]:
    """The first lines, with a count of those left out."""
    lines = [quote(item.record) for item in items[:limit]]
    if len(items) > limit:
        lines.append(f"and {len(items) - limit} more such lines")
    return lines


def name_holders(holders: Sequence[Holder]) -> str:
    """``1420 (npud), 3988 (sh)``"""
    return ", ".join(f"{item.pid} ({one_line(item.command, 24) or '?'})" for item in holders)


def sigterm(holders: Sequence[Holder]) -> str:
    """The one way to ask a holder to let go."""
    if not holders:
        return "find the NPU's holders by their open descriptors (`ork board status`), not by program name"
    return (
        f"stop the holders with SIGTERM and wait until they are gone: {name_holders(holders)}; "
        f"`kill -TERM {' '.join(str(item.pid) for item in holders)}`"
    )
