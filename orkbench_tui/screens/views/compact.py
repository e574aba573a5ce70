"""The whole dashboard as numbers, for terminals below 80x24 down to 60x15."""

from __future__ import annotations

from orkbench_tui.ops.telemetry.sample import Sample
from orkbench_tui.ops.telemetry.wording import megahertz, of_total, percent
from orkbench_tui.screens.text_line import Line, Span, fit, line
from orkbench_tui.screens.view_state import ViewState
from orkbench_tui.screens.views.board import ddr_text, resets_text, temperature_parts
from orkbench_tui.screens.views.cpu import group_clock
from orkbench_tui.screens.views.gaps import caps_parts, gap_text, missing_title
from orkbench_tui.screens.views.log import log_row, rows_worth_showing
from orkbench_tui.screens.views.npu import why_no_load
from orkbench_tui.screens.views.users import rows_that_fit

__all__ = ["compact_lines"]


def compact_lines(state: ViewState, width: int, height: int) -> list[Line]:
    """Exactly ``height`` lines: figures first, then as many users and log rows as fit."""
    sample, glyphs = state.sample, state.glyphs
    if sample is None:
        lines: list[Line] = [line((" waiting for the first sample", "dim"))]
    else:
        lines = [*_figures(sample, state, width)]
        room = max(1, (height - len(lines)) // 2)
        users = rows_that_fit(sample, state, width, room) or [line((" no NPU users visible", "dim"))]
        lines += users
        rows = rows_worth_showing(sample)
        rest = height - len(lines)
        lines += [log_row(row, sample, glyphs) for row in rows[-rest:]] if rest > 0 else []
    lines = lines[:height] + [()] * (height - len(lines))
    return [fit(item, width, glyphs.cut) for item in lines]


def _label(text: str) -> Span:
    return Span(f" {text:<7}", "dim")


def _figures(sample: Sample, state: ViewState, width: int) -> list[Line]:
    glyphs = state.glyphs
    reason = why_no_load(sample)
    lines: list[Line] = []
    if reason:
        lines.append((_label("NPU"), Span(reason, "warning")))
    else:
        spans = [_label("NPU %")]
        for core in sample.npu.cores:
            spans += [Span(f"core{core.index} ", "dim"), Span(f"{percent(core.load_pct):>3}  ", "value")]
        lines.append(tuple(spans))
    for group in sample.cpu:
        lines += _cpu_lines(
            [f"{percent(core.busy_pct):>3}" for core in group.cores], f"{group.name} %", width
        )
    memory = sample.memory
    if memory is None:
        lines.append((_label("RAM"), Span("?", "value"), Span(f" {gap_text(sample, 'memory')}", "dim")))
    else:
        spans = [_label("RAM"), Span(of_total(memory.used_bytes, memory.total_bytes), "value")]
        if memory.cma_total_bytes is not None and memory.cma_free_bytes is not None:
            used = memory.cma_total_bytes - memory.cma_free_bytes
            spans += [Span("   CMA ", "dim"), Span(of_total(used, memory.cma_total_bytes), "value")]
        lines.append(tuple(spans))
    clocks = [_label("MHz"), Span("NPU ", "dim"), Span(megahertz(sample.npu.clock.hz), "value")]
    for group in sample.cpu:
        if clock := group_clock(group):
            clocks += [Span(f"  {group.name} ", "dim"), Span(clock.removesuffix(" MHz"), "value")]
    clocks += [Span("  DDR ", "dim"), Span(ddr_text(sample)[0], "value")]
    lines.append(tuple(clocks))
    lines.append((_label("Temp"), *temperature_parts(sample, glyphs, width - 9)))
    if sample.caps:
        lines.append((_label("Caps"), *caps_parts(sample)))
    if unread := missing_title(sample):
        lines.append((Span(" "), *unread))
    value, rest = resets_text(sample, glyphs)
    lines.append((_label("Resets"), Span(value, "value"), Span(rest, "dim")))
    return lines


def _cpu_lines(numbers: list[str], name: str, width: int) -> list[Line]:
    """At most two lines of numbers; where cores do not fit, the rest is counted."""
    per_line = max(1, (width - 9) // 4)
    chunks = [numbers[start : start + per_line] for start in range(0, len(numbers), per_line)]
    lines: list[Line] = [
        (_label(name if index == 0 else ""), Span(" ".join(chunk), "value"))
        for index, chunk in enumerate(chunks[:2])
    ]
    if len(chunks) > 2:
        lines[-1] = (*lines[-1][:1], Span(f"{len(numbers) - per_line} more cores", "dim"))
    return lines
