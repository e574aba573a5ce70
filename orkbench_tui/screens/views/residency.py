"""Residency map: the planner's domains by bytes, the fullest one marked, full-K and sliced weights apart."""

from __future__ import annotations

from collections.abc import Sequence

from orkbench_tui.ops.telemetry.wording import byte_size
from orkbench_tui.plural import counted
from orkbench_tui.runner.orkpack.placement import Domain, Placement
from orkbench_tui.screens.listing import first_shown
from orkbench_tui.screens.plots import bar
from orkbench_tui.screens.text_line import Line, Span, fit, foreign, line
from orkbench_tui.screens.view_state import ViewState
from orkbench_tui.screens.views.section import title

__all__ = ["residency_lines"]


def residency_lines(
    name: str, placement: Placement, first: int, state: ViewState, width: int, height: int
) -> list[Line]:
    """``first`` is the domain the list is scrolled to."""
    glyphs, domains = state.glyphs, placement.domains
    ceiling = placement.policy.ceiling_bytes
    worst = max(domains, key=lambda domain: domain.total, default=None)
    right = line((f"{byte_size(placement.weight_bytes)} of weights, planned {glyphs.dot} o: files", "dim"))
    lines = [title(f"Where {foreign(name)} lives", right, width, glyphs)]
    head = f" {'domain':<8}{'layers':<10}{'sliced':>10}{'full K':>10}{'other':>10}{'window':>8}"
    lines.append(fit(line((head, "dim")), width, glyphs.cut, "dim"))
    room = max(1, height - len(lines) - 2)
    start = first_shown(first, len(domains), room)
    for domain in domains[start : start + room]:
        lines.append(_row(domain, ceiling, domain is worst, state, width))
    lines += [()] * (height - 2 - len(lines))
    lines.append(title("Fullest", line((counted(len(domains), "domain"), "dim")), width, glyphs))
    if worst is None:
        return [*lines, line((" nothing of it goes to the NPU", "dim"))]
    told = (
        f" d{worst.id}: {byte_size(worst.total)} of {byte_size(ceiling)} "
        f"({worst.total / ceiling:.0%}), {len(worst.names)} weights"
    )
    return [*lines, line((told, "value"))]


def _row(domain: Domain, ceiling: int, worst: bool, state: ViewState, width: int) -> Line:
    share = domain.total / ceiling
    other = domain.scratch + domain.anchor
    cells = (
        f"d{domain.id:<7}{_layers(domain.layers):<10}{byte_size(domain.sliced):>10}"
        f"{byte_size(domain.full_k):>10}{byte_size(other):>10}{share:>8.0%}"
    )
    mark = state.glyphs.severity[3] if share > 0.9 else " "
    spans: list[Span] = [Span(mark, "warning"), Span(cells, "value" if worst else "text")]
    if (room := width - len(cells) - 4) >= 6:
        filled, empty = bar(share, room, state.glyphs)
        spans += [Span("  "), Span(filled, "iova"), Span(empty, "track")]
    return tuple(spans)


def _layers(layers: Sequence[int]) -> str:
    inside = [layer for layer in layers if layer >= 0]
    parts = [f"{inside[0]}-{inside[-1]}" if len(inside) > 1 else str(inside[0])] if inside else []
    return "+".join([*parts, *(["other"] if len(inside) < len(layers) else [])])
