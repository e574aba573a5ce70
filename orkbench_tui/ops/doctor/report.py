"""The preflight as text."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from orkbench_tui.ops.doctor.checks import Outcome, fit
from orkbench_tui.plain_text import one_line

__all__ = ["doctor_lines"]

_COLUMNS = 80


def doctor_lines(outcomes: Sequence[Outcome]) -> list[str]:
    """One line a row, why and fix below those that want something; at most 80 columns."""
    lines: list[str] = []
    group = ""
    order = list(dict.fromkeys(outcome.check.group for outcome in outcomes))
    for outcome in sorted(outcomes, key=lambda item: order.index(item.check.group)):
        check, finding = outcome.check, outcome.finding
        if check.group != group:
            group = check.group
            lines.append(group)
        text = f"{finding.status:<8}{check.id:<17} {one_line(finding.found, 200)}"
        lines += textwrap.wrap(text, _COLUMNS, initial_indent="  ", subsequent_indent=" " * 28)
        if outcome.fix:
            told = f"want: {check.want}; {check.why}; fix: {outcome.fix}"
            lines += textwrap.wrap(told, _COLUMNS, initial_indent=" " * 10, subsequent_indent=" " * 12)
    failed = [o.check.id for o in outcomes if o.finding.status == "fail"]
    unknown = sum(o.finding.status == "unknown" for o in outcomes)
    word = "fit" if fit(tuple(outcomes)) else f"unfit for measuring: {', '.join(failed)}"
    lines += textwrap.wrap(f"{word}; {unknown} of {len(outcomes)} unknown", _COLUMNS)
    return lines
