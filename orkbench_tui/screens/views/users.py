"""Who uses the NPU: processes that hold it, and the address windows (IOMMU domains) they fill."""

from __future__ import annotations

from orkbench_tui.ops.telemetry.domains import Domain, Publication
from orkbench_tui.ops.telemetry.sample import Sample
from orkbench_tui.ops.telemetry.wording import byte_size
from orkbench_tui.plural import counted
from orkbench_tui.screens.plots import bar
from orkbench_tui.screens.text_line import Line, Span, fit, foreign, line
from orkbench_tui.screens.view_state import ViewState
from orkbench_tui.screens.views.section import panel, title

__all__ = ["rows_that_fit", "user_rows", "users_panel"]

# Cells of the columns of a row; the command takes what is left.
_PID, _DOMAIN, _USED, _RATE = 8, 5, 20, 11


def users_panel(state: ViewState, width: int, height: int) -> list[Line]:
    glyphs, sample = state.glyphs, state.sample
    note = line(("reported by this driver; others not visible", "dim"))
    head = title("Processes and IOVA domains", note, width, glyphs)
    if sample is None:
        return panel(head, [], width, height, glyphs)
    rows = rows_that_fit(sample, state, width, height - 1)
    if not rows:
        rows = [line((" none visible", "dim"))]
    return panel(head, rows, width, height, glyphs)


def rows_that_fit(sample: Sample, state: ViewState, width: int, room: int) -> list[Line]:
    """A row per domain if there is room, else a row per process, else as many as fit and a count."""
    rows = user_rows(sample, state, width)
    if len(rows) > room:
        rows = user_rows(sample, state, width, merged=True)
    if len(rows) > room:
        hidden = len(rows) - max(room - 1, 0)
        rows = [*rows[: max(room - 1, 0)], line((f" +{hidden} more; see `ork board status --json`", "dim"))]
    return rows


def user_rows(sample: Sample, state: ViewState, width: int, *, merged: bool = False) -> list[Line]:
    """One row per process and domain (``merged``: per process); holders that do not use this driver last."""
    rows: list[Line] = []
    published = {item.pid for item in sample.occupancy.processes}
    for item in sample.occupancy.processes:
        rate = sample.occupancy.submits_per_s.get(item.pid)
        domains: tuple[Domain | None, ...] = item.domains or (None,)
        if merged and len(item.domains) > 1:
            domains = (_sum(item.domains),)
        for index, domain in enumerate(domains):
            rows.append(_row(item, domain, rate if index == 0 else None, index == 0, state, width))
    for holder in sample.holders:
        if holder.pid not in published:
            rows.append(
                line(
                    (f" {holder.pid:>6} ", "text"),
                    (f"{foreign(holder.command) or '?'} ", "value"),
                    (f"holds {holder.node}, occupancy not visible", "dim"),
                )
            )
    return rows


def _sum(domains: tuple[Domain, ...]) -> Domain:
    """All domains of a process as one, with no id of its own."""
    return Domain(
        id=-1,
        used_bytes=sum(domain.used_bytes for domain in domains),
        buffers=sum(domain.buffers for domain in domains),
        largest_free_bytes=max(domain.largest_free_bytes for domain in domains),
        capacity_bytes=sum(domain.capacity_bytes for domain in domains),
    )


def _row(
    item: Publication, domain: Domain | None, rate: float | None, first: bool, state: ViewState, width: int
) -> Line:
    glyphs = state.glyphs
    bar_width = 0 if width < 80 else 10 if width < 112 else 18
    buffers_width = 0 if width < 80 else 8
    hole_width = 15 if width >= 112 else 0
    room = width - sum((_PID, _DOMAIN, bar_width, _USED, buffers_width, hole_width, _RATE))
    who = line(
        (f" {item.pid:>6} " if first else " " * _PID, "text"),
        (foreign(item.command) if first else "", "value"),
    )
    head = fit(who, _PID + min(max(room, 8), 60), glyphs.cut)
    if domain is None:
        return (*head, Span(f"  {counted(item.counters.submits, 'submit')}, no buffers", "dim"))
    name = f"d{domain.id}" if domain.id >= 0 else f"{len(item.domains)}d"
    share = domain.used_bytes / domain.capacity_bytes if domain.capacity_bytes else None
    filled, empty = bar(share, bar_width, glyphs)
    used = f"{byte_size(domain.used_bytes)} of {byte_size(domain.capacity_bytes)}"
    spans = [*head, Span(f" {name:<3} ", "dim"), Span(filled, "iova"), Span(empty, "track")]
    spans.append(Span(f" {used:<{_USED - 1}}", "text"))
    if buffers_width:
        spans.append(Span(f" {domain.buffers:>3} buf", "dim"))
    if hole_width:
        spans.append(Span(f"  hole {byte_size(domain.largest_free_bytes):<8}", "dim"))
    if first and rate is not None:
        spans += [Span(f" {rate:>4.0f}", "value"), Span(" sub/s", "dim")]
    elif first:
        spans.append(Span(f" {item.counters.submits:>6} sub", "dim"))
    return tuple(spans)
