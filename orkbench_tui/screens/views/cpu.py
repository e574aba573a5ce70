"""CPU panel: every core, grouped by kind, with the clock of its kind."""

from __future__ import annotations

from orkbench_tui.ops.telemetry.sample import CpuCore, CpuGroup
from orkbench_tui.ops.telemetry.wording import megahertz, percent
from orkbench_tui.screens.glyphs import Glyphs
from orkbench_tui.screens.plots import bar, spark
from orkbench_tui.screens.text_line import Line, Span, line
from orkbench_tui.screens.view_state import ViewState
from orkbench_tui.screens.views.section import panel, title

__all__ = ["cpu_panel", "group_clock"]

_NARROWEST_CELL = 13


def group_clock(group: CpuGroup) -> str:
    """``1800 MHz`` or ``2256/2304 MHz`` for a kind with several clocks; "" when unknown."""
    values = [megahertz(clock.hz) for clock in group.clocks if clock.hz is not None]
    return f"{'/'.join(values)} MHz" if values else ""


def cpu_panel(state: ViewState, width: int, height: int) -> list[Line]:
    glyphs, sample = state.glyphs, state.sample
    groups = sample.cpu if sample else ()
    blocked = sample.blocked_tasks if sample else None
    right = line((f"{blocked} blocked", "warning")) if blocked else ()
    body: list[Line] = []
    columns = _columns(groups, width, height - 1)
    for group in groups:
        body.append(_head(group))
        if columns:
            body += _rows(group, width, columns, glyphs)
        else:
            marks = spark([core.busy_pct for core in group.cores], glyphs)
            room = width - 2
            body += [line((" " + marks[start : start + room], "cpu")) for start in range(0, len(marks), room)]
    return panel(title("CPU", right, width, glyphs), body, width, height, glyphs)


def _columns(groups: tuple[CpuGroup, ...], width: int, room: int) -> int:
    """The fewest cores in a row with which all fit; 0 when bars cannot show them all."""
    for columns in range(1, max(2, width // _NARROWEST_CELL + 1)):
        if sum(1 + -(-len(group.cores) // columns) for group in groups) <= room:
            return columns
    return 0


def _head(group: CpuGroup) -> Line:
    governors = sorted({clock.governor for clock in group.clocks if clock.governor})
    clock = group_clock(group)
    return line((f" {group.name} ", "text"), (clock, "value"), (f" {' '.join(governors)}", "dim"))


def _rows(group: CpuGroup, width: int, columns: int, glyphs: Glyphs) -> list[Line]:
    cell = (width - 1) // columns
    per_column = -(-len(group.cores) // columns)
    lines: list[Line] = []
    for row in range(per_column):
        spans: list[Span] = [Span(" ")]
        # Column by column, so that neighbours in number stand below one another.
        for core in group.cores[row::per_column]:
            spans += _cell(core, cell, glyphs)
        lines.append(tuple(spans))
    return lines


def _cell(core: CpuCore, width: int, glyphs: Glyphs) -> Line:
    fraction = None if core.busy_pct is None else core.busy_pct / 100
    filled, empty = bar(fraction, max(1, width - 10), glyphs)
    return line(
        (f"{core.index:>2} ", "dim"),
        (filled, "cpu"),
        (empty, "track"),
        (f" {percent(core.busy_pct):>3} % ", "text"),
    )
