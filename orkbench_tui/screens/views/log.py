"""Kernel log rows: when, how bad, which class, how often, the line itself."""

from __future__ import annotations

from orkbench_tui.ops.kernel_log.folding import LogRow
from orkbench_tui.ops.kernel_log.rules import Severity, without_prefix
from orkbench_tui.ops.telemetry.sample import Sample
from orkbench_tui.ops.telemetry.wording import clock_time
from orkbench_tui.plural import counted
from orkbench_tui.screens.glyphs import Glyphs
from orkbench_tui.screens.text_line import Line, Span, foreign, line
from orkbench_tui.screens.view_state import ViewState
from orkbench_tui.screens.views.section import panel, title

__all__ = ["log_panel", "log_row", "rows_worth_showing", "when_text"]

_WORDS = {
    Severity.DEBUG: "noise",
    Severity.INFO: "info",
    Severity.NOTICE: "note",
    Severity.WARNING: "warn",
    Severity.ERROR: "error",
    Severity.CRITICAL: "crit",
}


def when_text(row: LogRow, sample: Sample | None) -> str:
    """Local time where the boot time is known, else seconds since boot."""
    if row.last_us is None:
        return row.wall[11:19] if len(row.wall) >= 19 else "   ?    "
    if sample is None or sample.uptime_s is None:
        return f"{row.last_us / 1e6:>8.1f}"
    return clock_time(sample.unix_s - sample.uptime_s + row.last_us / 1e6)


def log_row(row: LogRow, sample: Sample | None, glyphs: Glyphs) -> Line:
    role = row.severity.word
    count = f"{glyphs.times}{row.count} " if row.count > 1 else ""
    return line(
        (f" {when_text(row, sample)} ", "dim"),
        (f"{glyphs.severity[row.severity]} {_WORDS[row.severity]:<5} ", role),
        (count, "value"),
        (foreign(without_prefix(row.message)), role if row.severity >= Severity.WARNING else "text"),
    )


def rows_worth_showing(sample: Sample | None, noise: bool = False) -> tuple[LogRow, ...]:
    rows = sample.log.rows if sample else ()
    return rows if noise else tuple(row for row in rows if row.severity > Severity.DEBUG)


def log_panel(state: ViewState, width: int, height: int) -> list[Line]:
    glyphs, sample = state.glyphs, state.sample
    rows = rows_worth_showing(sample)
    right: Line = ()
    if sample is not None:
        facts = sample.log.facts
        gap = sample.reason("resets")
        if gap is not None:
            right = line((f"{gap.path} {gap.reason}", "warning"))
        elif facts.problems:
            right = line(
                (f"{counted(facts.problems, 'line')} of trouble, {counted(facts.hangs, 'hang')}", "warning")
            )
        else:
            right = line(("no trouble in it", "dim"))
    body = [log_row(row, sample, glyphs) for row in rows[-(height - 1) :]]
    if not body:
        body = [line((" no line about the NPU", "dim"))]
    return panel(
        title("Kernel log", (*right, Span(f" {glyphs.dot} l: all", "dim")), width, glyphs),
        body,
        width,
        height,
        glyphs,
    )
