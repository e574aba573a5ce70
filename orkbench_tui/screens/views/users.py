"""Who uses the NPU: processes that hold it, and the address windows (IOMMU domains) they fill."""

from __future__ import annotations

from orkbench_tui.ops.telemetry.domains import Domain, Publication
from orkbench_tui.ops.telemetry.sample import Sample
from orkbench_tui.ops.telemetry.wording import byte_size
from orkbench_tui.screens.plots import bar
from orkbench_tui.screens.text_line import Line, Span, fit, foreign, line
from orkbench_tui.screens.view_state import ViewState
from orkbench_tui.screens.views.section import panel, title

__all__ = ["user_rows", "users_panel"]


def users_panel(state: ViewState, width: int, height: int) -> list[Line]:
    glyphs, sample = state.glyphs, state.sample
    note = line(("measured by this driver; others not visible", "dim"))
    head = title("Processes and IOVA domains", note, width, glyphs)
    if sample is None:
        return panel(head, [], width, height, glyphs)
    rows = user_rows(sample, state, width)
    room = height - 1
    if len(rows) > room:
        hidden = len(rows) - room + 1
        rows = [*rows[: room - 1], line((f" +{hidden} more rows; see `ork board status --json`", "dim"))]
    if not rows:
        rows = [line((" nobody holds the NPU", "dim"))]
    return panel(head, rows, width, height, glyphs)


def user_rows(sample: Sample, state: ViewState, width: int) -> list[Line]:
    """One row per process and domain; holders that do not use this driver last."""
    rows: list[Line] = []
    published = {item.pid for item in sample.occupancy.processes}
    for item in sample.occupancy.processes:
        rate = sample.occupancy.submits_per_s.get(item.pid)
        domains: tuple[Domain | None, ...] = item.domains or (None,)
        for index, domain in enumerate(domains):
            rows.append(_row(item, domain, rate if index == 0 else None, index == 0, state, width))
    for holder in sample.holders:
        if holder.pid not in published:
            rows.append(
                line(
                    (f" {holder.pid:>7} ", "text"),
                    (f"{foreign(holder.command) or '?'} ", "value"),
                    (f"holds {holder.node}, occupancy not visible", "dim"),
                )
            )
    return rows


def _row(
    item: Publication, domain: Domain | None, rate: float | None, first: bool, state: ViewState, width: int
) -> Line:
    glyphs = state.glyphs
    command_width = 16 + max(0, width - 80) // 3
    who = line(
        (f" {item.pid:>7} " if first else " " * 9, "text"), (foreign(item.command) if first else "", "value")
    )
    head = fit(who, 9 + command_width, glyphs.cut)
    if domain is None:
        return (*head, Span(f"  {item.counters.submits} submits, no buffers", "dim"))
    bar_width = 10 if width < 100 else 18
    filled, empty = bar(
        domain.used_bytes / domain.capacity_bytes if domain.capacity_bytes else None, bar_width, glyphs
    )
    spans = [
        *head,
        Span(f" d{domain.id:<2} ", "dim"),
        Span(filled, "iova"),
        Span(empty, "track"),
        Span(f" {f'{byte_size(domain.used_bytes)} of {byte_size(domain.capacity_bytes)}':<19}", "text"),
        Span(f" {domain.buffers:>3} buf", "dim"),
    ]
    if width >= 100:
        spans.append(Span(f"  hole {byte_size(domain.largest_free_bytes)}", "dim"))
    if first:
        spans.append(Span("  ", "dim"))
        if rate is not None:
            spans += [Span(f"{rate:.0f}", "value"), Span(" sub/s", "dim")]
        else:
            spans.append(Span(f"{item.counters.submits} sub", "dim"))
    return tuple(spans)
