"""The address windows (IOMMU domains) of the NPU: what fills them, and how the free part is cut up."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from orkbench_tui.ops.telemetry.domains import Domain, Publication
from orkbench_tui.ops.telemetry.sample import Sample
from orkbench_tui.ops.telemetry.wording import byte_size
from orkbench_tui.plural import counted
from orkbench_tui.screens.listing import first_shown
from orkbench_tui.screens.plots import bar
from orkbench_tui.screens.text_line import Line, Span, fit, foreign, line, plain
from orkbench_tui.screens.view_state import ViewState
from orkbench_tui.screens.views.section import title

__all__ = ["DomainRow", "domain_rows", "domains_lines", "domains_spoken", "fragmentation"]

_FULL = 0.9
_TEXT = 47


@dataclass(frozen=True, slots=True)
class DomainRow:
    """One domain of one process."""

    process: Publication
    domain: Domain


def domain_rows(sample: Sample | None) -> list[DomainRow]:
    processes = sample.occupancy.processes if sample else ()
    return [DomainRow(item, domain) for item in processes for domain in item.domains]


def fragmentation(domain: Domain) -> float | None:
    """Share of the free addresses that is not in the largest hole, 0 to 1; None when nothing is free."""
    free = domain.capacity_bytes - domain.used_bytes
    return None if free <= 0 else max(0.0, 1 - domain.largest_free_bytes / free)


def domains_lines(state: ViewState, chosen: int, width: int, height: int) -> list[Line]:
    glyphs, sample = state.glyphs, state.sample
    note = line(("reported by this driver; others not visible", "dim"))
    rows = domain_rows(sample)
    lines = [title("IOVA domains", note, width, glyphs)]
    lines += _trouble(sample, state, width)
    if not rows:
        return [*lines, *_nothing(sample, width)]
    used: dict[int, list[Domain]] = {}
    for row in rows:
        used.setdefault(row.domain.id, []).append(row.domain)
    if len(used) < len(rows):
        for number in sorted(used):
            lines.append(_total(number, used[number], state, width))
        lines.append(title("By process", (), width, glyphs))
    details = _details(rows[min(chosen, len(rows) - 1)], width)
    body: list[Line] = []
    place = 0
    for index, row in enumerate(rows):
        if index == 0 or rows[index - 1].process.pid != row.process.pid:
            body.append(_process(row.process, sample, width))
        if index == chosen:
            place = len(body)
        body.append(_row(row.domain, index == chosen, state, width))
    room = max(1, height - len(lines) - len(details) - 1)
    start = first_shown(place, len(body), room)
    lines += body[start : start + room]
    lines += [()] * (height - len(lines) - len(details) - 1)
    return [*lines, title("Meaning", (), width, glyphs), *details]


def _nothing(sample: Sample | None, width: int) -> list[Line]:
    """Why no domain is shown, and what to do."""
    if sample is None:
        said = [("waiting for the first sample", "dim")]
    elif not sample.identity.driver:
        said = [
            ("there is no NPU driver on this board", "warning"),
            ("doctor (8) says what is missing", "dim"),
        ]
    else:
        held = ", ".join(f"{foreign(h.command)} ({h.pid})" for h in sample.holders)
        first = (
            f"held by {held}, which publishes no occupancy, and the stock driver exports none"
            if held
            else "no process of this user uses the NPU through this driver now"
        )
        said = [(first, "text"), ("`ork run chat`, or chat (7) here, fills a domain with weights", "dim")]
    return [line((f" {part}", role)) for text, role in said for part in textwrap.wrap(text, width - 2)]


def _trouble(sample: Sample | None, state: ViewState, width: int) -> list[Line]:
    """What the kernel log says about address windows; nothing on a healthy board."""
    facts = sample.log.facts if sample else None
    if facts is None:
        return []
    found = [
        f"{count} {name}"
        for count, name in (
            (facts.unmap_warnings, "unmap warnings"),
            (facts.iova_failures, "failed address allocations"),
            (facts.leaked_objects, "leaked buffers"),
            (facts.switch_timeouts, "domain switches that timed out"),
            (facts.page_faults, "page faults"),
        )
        if count
    ]
    if not found:
        return []
    text = f"kernel log (4): {', '.join(found)}; what each means and needs is there"
    mark = state.glyphs.severity[3]
    return [line((f" {mark} {part}", "warning")) for part in textwrap.wrap(text, width - 4)]


def _bar(domain_used: int, capacity: int, width: int, state: ViewState) -> tuple[Span, Span]:
    share = domain_used / capacity if capacity else None
    filled, empty = bar(share, width, state.glyphs)
    return Span(filled, "warning" if share is not None and share >= _FULL else "iova"), Span(empty, "track")


def _total(number: int, domains: Sequence[Domain], state: ViewState, width: int) -> Line:
    used, capacity = sum(d.used_bytes for d in domains), max(d.capacity_bytes for d in domains)
    head = line((f" d{number:<3}", "value"))
    text = f" {byte_size(used)} of {byte_size(capacity)} by {len(domains)} processes"
    return (*head, *_bar(used, capacity, max(6, width - 5 - _TEXT), state), Span(text, "text"))


def _process(item: Publication, sample: Sample | None, width: int) -> Line:
    rate = sample.occupancy.submits_per_s.get(item.pid) if sample else None
    parts = [counted(item.counters.submits, "job")]
    if rate is not None:
        parts.append(f"{rate:.0f}/s")
    if item.active_domain is not None:
        parts.append(f"active d{item.active_domain}")
    if item.switches is not None:
        parts.append(counted(item.switches.total, "switch", "switches"))
    return line((f" {item.pid} ", "text"), (foreign(item.command), "value"), (f"  {', '.join(parts)}", "dim"))


def _row(domain: Domain, chosen: bool, state: ViewState, width: int) -> Line:
    glyphs = state.glyphs
    cut = fragmentation(domain)
    full = domain.capacity_bytes and domain.used_bytes / domain.capacity_bytes >= _FULL
    text = (
        f" {byte_size(domain.used_bytes):>8} of {byte_size(domain.capacity_bytes):<8}"
        f" {domain.buffers:>4} buf  frag {'-' if cut is None else f'{cut:.0%}':>4}"
    )
    tail = f" {glyphs.severity[3]} nearly full" if full else ""
    room = max(6, width - 8 - max(_TEXT, len(text) + len(tail)))
    mark = glyphs.cursor if chosen else " "
    return (
        Span(f" {mark}", "key"),
        Span(f" d{domain.id:<3}", "value"),
        *_bar(domain.used_bytes, domain.capacity_bytes, room, state),
        Span(text, "text"),
        Span(tail, "warning"),
    )


def _details(row: DomainRow, width: int) -> list[Line]:
    """What the chosen domain holds, in three lines."""
    domain = row.domain
    free = max(0, domain.capacity_bytes - domain.used_bytes)
    holes = "?" if domain.holes is None else f"{domain.holes}"
    first = f" d{domain.id}: {byte_size(free)} free in {holes} holes; the largest buffer that still fits: {byte_size(domain.largest_free_bytes)}"
    imports = (
        "not said" if domain.imports is None else f"{domain.imports}, {byte_size(domain.imported_bytes)}"
    )
    second = f" {domain.buffers} buffers; imported from other devices' memory: {imports}"
    cut = fragmentation(domain)
    advice = (
        " nothing is free: weights go to the next domain, or a buffer must be freed"
        if cut is None
        else " the free addresses are cut up: large buffers may fail although the sum would do"
        if cut > 0.5
        else " one large hole: what is free can be used"
    )
    return [
        fit(line((text, role)), width) for text, role in ((first, "text"), (second, "text"), (advice, "dim"))
    ]


def domains_spoken(state: ViewState) -> list[str]:
    rows = domain_rows(state.sample)
    if not rows:
        return [
            plain(item).strip()
            for item in (*_trouble(state.sample, state, 400), *_nothing(state.sample, 400))
        ]
    said = []
    for row in rows:
        said.append(f"Process {row.process.pid}, {foreign(row.process.command)}:")
        said += [f"  {plain(item).strip()}" for item in _details(row, 200)]
        said[-3] += f"; used {byte_size(row.domain.used_bytes)} of {byte_size(row.domain.capacity_bytes)}"
    return said
