"""Rows for people: repeats folded, the lines of one hang as one row, raw text one step away."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from orkbench_tui.ops.kernel_log.classify import Classified
from orkbench_tui.ops.kernel_log.rules import Severity

__all__ = ["LogRow", "fold"]

_ONE_HANG_WITHIN_US = 1_000_000
_HANG_KINDS = ("wait", "hang", "timeout", "core")
_MAX_LINES = 16


@dataclass(frozen=True, slots=True)
class LogRow:
    """One row of a log view: a line, ``count`` lines of one class in a row, or the lines of one hang.

    ``message`` is the newest line, or for a hang what the lines add up to; ``lines`` are the raw ones,
    oldest first, of which only the last 16 are kept. ``figures`` are the named values of a hang.
    """

    rule_id: str
    severity: Severity
    message: str
    meaning: str
    next_step: str
    count: int = 1
    first_us: int | None = None
    last_us: int | None = None
    wall: str = ""
    lines: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    figures: tuple[tuple[str, str], ...] = ()


def fold(rows: list[LogRow], items: Iterable[Classified], limit: int = 500) -> list[LogRow]:
    """``rows`` continued with ``items``, newest last, at most ``limit`` of them."""
    result = list(rows)
    for item in items:
        last = result[-1] if result else None
        if last is not None and _belongs_to_hang(last, item):
            result[-1] = _with_line(last, item)
        elif last is not None and _repeats(last, item):
            row = _row(item)
            result[-1] = replace(
                last,
                count=last.count + 1,
                message=row.message,
                last_us=row.last_us,
                wall=row.wall or last.wall,
                lines=(*last.lines, *row.lines)[-_MAX_LINES:],
            )
        else:
            result.append(_row(item))
    return result[-limit:]


def _row(item: Classified) -> LogRow:
    record, rule = item.record, item.rule
    hang = item.kind in _HANG_KINDS
    return LogRow(
        rule_id=rule.id if rule else "",
        severity=item.severity,
        message=record.message,
        meaning=rule.meaning if rule else "",
        next_step=rule.next_step if rule else "",
        first_us=record.ts_us,
        last_us=record.ts_us,
        wall=record.wall,
        lines=(record.message,),
        kinds=(item.kind,) if hang else (),
        figures=tuple(item.figures.items()) if hang else (),
    )


def _repeats(last: LogRow, item: Classified) -> bool:
    if item.rule is None or item.rule.id != last.rule_id or last.kinds:
        return False
    # Lines no rule knows may differ in what matters.
    return item.rule.id != "npu.unknown" or item.record.message == last.message


def _belongs_to_hang(last: LogRow, item: Classified) -> bool:
    """Whether a line continues the hang of the last row: in time, in order, about the same job."""
    if not last.kinds or "reset" in last.kinds:
        return False
    if item.kind == "wait":
        return last.kinds[-1] == "wait" and dict(last.figures).get("job") == item.figures.get("job")
    order = ("wait", "hang", "timeout", "core", "reset")
    if item.kind not in order or order.index(item.kind) < order.index(last.kinds[-1]):
        return False
    if item.kind == last.kinds[-1] and item.kind != "core":
        return False
    then, now = last.last_us, item.record.ts_us
    return then is None or now is None or 0 <= now - then <= _ONE_HANG_WITHIN_US


def _with_line(last: LogRow, item: Classified) -> LogRow:
    figures = dict(last.figures)
    if item.kind == "core" and "core" in figures and "core" in item.figures:
        figures["core"] += f"+{item.figures['core']}"
        figures |= {name: text for name, text in item.figures.items() if name != "core"}
    else:
        figures |= item.figures
    kinds = (*last.kinds, item.kind)
    rule = item.rule
    if rule is not None and item.kind == "hang":
        last = replace(
            last, rule_id=rule.id, meaning=rule.meaning, next_step=rule.next_step, severity=rule.severity
        )
    return replace(
        last,
        message=_sentence(figures, kinds) or item.record.message,
        last_us=item.record.ts_us,
        wall=item.record.wall or last.wall,
        lines=(*last.lines, item.record.message)[-_MAX_LINES:],
        kinds=kinds,
        figures=tuple(figures.items()),
    )


def _sentence(figures: dict[str, str], kinds: tuple[str, ...]) -> str:
    """``job timed out on core 1 after 6.1 s: 17 tasks done, raw status 0x10000; reset``"""
    if not {"hang", "timeout", "core"} & set(kinds):
        return ""
    text = "job timed out"
    core = figures.get("core") or _core_of_mask(figures.get("mask", ""))
    if core:
        text += f" on core {core}"
    elapsed = figures.get("elapsed_us", "")
    if elapsed.isascii() and elapsed.isdigit() and len(elapsed) < 20:
        text += f" after {int(elapsed) / 1e6:.1f} s"
    known = []
    if tasks := figures.get("tasks"):
        known.append(f"{_decimal(tasks)} tasks done")
    if raw := figures.get("raw"):
        known.append(f"raw status {raw.rstrip(',')}")
    if known:
        text += ": " + ", ".join(known)
    return text + ("; reset" if "reset" in kinds else "")


def _core_of_mask(mask: str) -> str:
    try:
        bits = int(mask, 16)
    except ValueError:
        return ""
    return "+".join(str(core) for core in range(8) if bits >> core & 1)


def _decimal(text: str) -> str:
    try:
        return str(int(text.rstrip(","), 0))
    except ValueError:
        return text
