"""The kernel log as a page: rows around the chosen one, and what that one means."""

from __future__ import annotations

import textwrap

from orkbench_tui.ops.kernel_log.folding import LogRow
from orkbench_tui.ops.telemetry.sample import Sample
from orkbench_tui.screens.listing import first_shown
from orkbench_tui.screens.text_line import Line, Span, fit, foreign, line, plain
from orkbench_tui.screens.view_state import ViewState
from orkbench_tui.screens.views.log import log_row, rows_worth_showing
from orkbench_tui.screens.views.section import title

__all__ = ["DETAIL_LINES", "log_lines", "log_spoken"]

DETAIL_LINES = 7


def log_lines(
    state: ViewState,
    rows: tuple[LogRow, ...],
    chosen: int,
    heading: str,
    width: int,
    height: int,
) -> list[Line]:
    """Rows around the chosen one, and its details below."""
    glyphs, sample = state.glyphs, state.sample
    details = DETAIL_LINES if height >= 16 else 4
    room = max(1, height - 2 - details)
    start = first_shown(chosen, len(rows), room)
    lines: list[Line] = [title("Kernel log", line((heading, "dim")), width, glyphs)]
    for index, row in enumerate(rows[start : start + room], start):
        text = log_row(row, sample, glyphs)
        if index == chosen:
            text = fit((Span(glyphs.cursor + plain(text)[1:], "cursor"),), width, glyphs.cut, "cursor")
        lines.append(text)
    if not rows:
        lines.append(line((f" {_why_empty(sample)}", "dim")))
    lines += [()] * (1 + room - len(lines))
    lines.append(title("Meaning", (), width, glyphs))
    return lines + _details(rows[chosen] if 0 <= chosen < len(rows) else None, details, width)


def _why_empty(sample: Sample | None) -> str:
    if sample is None:
        return "waiting for the first sample"
    gap = sample.reason("resets")
    if gap is not None:
        remedy = (
            "; root reads it, or a user of group adm where the distribution lets them"
            if gap.reason == "denied"
            else ""
        )
        return f"the kernel log is {gap.reason}: {gap.path} {gap.errno}{remedy}".rstrip()
    return "no such line about the NPU in the kernel log"


def _details(row: LogRow | None, many: int, width: int) -> list[Line]:
    """Meaning, next step and the newest raw lines, wrapped into ``many`` lines."""
    if row is None:
        return [()] * many
    head = f"{row.rule_id}: {row.meaning}"
    if row.next_step:
        head += f". Next: {row.next_step}."
    lines = [line((f" {part}", "text")) for part in textwrap.wrap(head, width - 2)[: many - 1]]
    raw = [part for text in row.lines for part in textwrap.wrap(foreign(text), width - 4) or [""]]
    lines += [line((f"   {part}", "dim")) for part in raw[-(many - len(lines)) :]]
    return lines + [()] * (many - len(lines))


def log_spoken(state: ViewState) -> list[str]:
    """The newest rows, each with its meaning and next step where it has one."""
    rows = rows_worth_showing(state.sample)
    if not rows:
        return [f"Kernel log: {_why_empty(state.sample)}."]
    said = [f"Kernel log, {len(rows)} rows without noise, the newest last."]
    for row in rows[-20:]:
        said.append(" ".join(plain(log_row(row, state.sample, state.glyphs)).split()))
        if row.next_step:
            said.append(f"  {row.rule_id}: {row.meaning}. Next: {row.next_step}.")
    return said
