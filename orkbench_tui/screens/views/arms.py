"""Kept comparisons of two arms: ratio, its interval, and whether it is a difference at all."""

from __future__ import annotations

import textwrap
import time
from collections.abc import Sequence

from orkbench_tui.runner.bench.arms import TestVerdict
from orkbench_tui.runner.bench.kept_comparisons import KeptComparison
from orkbench_tui.screens.listing import first_shown
from orkbench_tui.screens.text_line import Line, Span, fit, foreign, line, plain
from orkbench_tui.screens.view_state import ViewState
from orkbench_tui.screens.views.section import title

__all__ = ["arms_spoken", "compared_lines"]

_HEAD = " when              test         ratio   95 % interval  pairs  verdict       second against first"
_ROLES = {"faster": "value", "slower": "warning", "noise": "dim", "insufficient": "dim"}


def compared_lines(
    arms: Sequence[KeptComparison], chosen: int, state: ViewState, width: int, height: int
) -> list[Line]:
    rows = [(kept, verdict) for kept in arms for verdict in kept.verdicts]
    right = line((f"{len(rows)} rows", "dim"), (f" {state.glyphs.dot} o: own results", "dim"))
    lines = [title(f"Bench {state.glyphs.dot} Comparisons", right, width, state.glyphs)]
    if not rows:
        return [*lines, line((" no comparison yet; `ork run bench compare A B` makes one", "text"))]
    chosen = min(chosen, len(rows) - 1)
    details = _details(*rows[chosen], width)
    lines.append(fit(line((_HEAD, "dim")), width, state.glyphs.cut, "dim"))
    room = max(1, height - len(lines) - 1 - len(details))
    start = first_shown(chosen, len(rows), room)
    for index in range(start, min(start + room, len(rows))):
        row = _row(*rows[index])
        if index == chosen:
            row = (Span(state.glyphs.cursor + plain(row)[1:], "cursor"),)
        lines.append(fit(row, width, state.glyphs.cut, "cursor" if index == chosen else "text"))
    lines += [()] * (height - len(lines) - 1 - len(details))
    return [*lines, title("Chosen", (), width, state.glyphs), *details]


def _row(kept: KeptComparison, verdict: TestVerdict) -> Line:
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(kept.taken_unix_s))
    found = verdict.comparison
    ratio = "-" if found.ratio is None else f"{found.ratio:.3f}"
    known = found.low is not None and found.high is not None
    interval = f"{found.low:.3f} to {found.high:.3f}" if known else "-"
    return line(
        (f" {when}  ", "dim"),
        (f"{foreign(verdict.test):<10}", "value"),
        (f"{ratio:>8}  {interval:>14}{found.pairs:>7}  ", "text"),
        (f"{found.verdict:<12}", _ROLES[found.verdict]),
        (f"  {foreign(kept.second)} / {foreign(kept.first)}", "text"),
    )


def _details(kept: KeptComparison, verdict: TestVerdict, width: int) -> list[Line]:
    speeds = [
        f" {foreign(name)}: {', '.join(f'{speed:.2f}' for speed in values[:8])} tok/s ({kept.label})"
        for name, values in ((kept.first, verdict.first), (kept.second, verdict.second))
    ]
    why = textwrap.wrap(f"{verdict.comparison.verdict}: {foreign(verdict.comparison.why)}", width - 2)
    lines = [line((text[:width], "text")) for text in speeds]
    lines += [line((f" {part}", "dim")) for part in why[:3]]
    return (lines + [()] * 5)[:5]


def arms_spoken(arms: Sequence[KeptComparison]) -> list[str]:
    return [" ".join(plain(_row(kept, verdict)).split()) for kept in arms[:10] for verdict in kept.verdicts]
