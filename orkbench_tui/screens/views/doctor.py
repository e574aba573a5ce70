"""The preflight as a list: status, check, what was found; below, what is wanted, why, and the fix."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from orkbench_tui.ops.doctor.checks import Outcome, fit
from orkbench_tui.screens.glyphs import Glyphs
from orkbench_tui.screens.listing import first_shown
from orkbench_tui.screens.text_line import Line, Span, foreign, line, plain
from orkbench_tui.screens.text_line import fit as fit_line
from orkbench_tui.screens.view_state import ViewState
from orkbench_tui.screens.views.section import title

__all__ = ["FIXES", "doctor_lines", "doctor_spoken", "first_of_note", "verdict"]

FIXES: dict[str, tuple[str, dict[str, str]]] = {
    "npu.clock": ("governors", {"mode": "performance"}),
    "npu.governor": ("governors", {"mode": "performance"}),
    "ddr.clock": ("governors", {"mode": "performance"}),
    "cpu.clocks": ("governors", {"mode": "performance"}),
    "irq.placement": ("irq-affinity", {"mode": "little"}),
    "npu.users": ("drain", {}),
    "npu.idle": ("recover", {}),
    "faults": ("recover", {}),
    "page.cache": ("drop-caches", {"level": "1"}),
}
"""Which operation helps a check that wants something: its name and words."""

_ROLE = {"ok": "text", "warn": "warning", "fail": "error", "unknown": "dim"}
_MARK = {"warn": 3, "fail": 4, "unknown": 0}
_DETAILS = (5, 7)
_TALL = 22


def verdict(outcomes: Sequence[Outcome]) -> str:
    """One sentence over all checks."""
    failed = [o.check.id for o in outcomes if o.finding.status == "fail"]
    unknown = sum(o.finding.status == "unknown" for o in outcomes)
    word = "fit for measuring" if fit(tuple(outcomes)) else f"unfit: {len(failed)} failed"
    return f"{word}, {unknown} of {len(outcomes)} unknown"


def first_of_note(outcomes: Sequence[Outcome]) -> int:
    """Where to begin: the first check that failed, else the first that warns, else the first."""
    found = [outcome.finding.status for outcome in outcomes]
    return next((found.index(status) for status in ("fail", "warn") if status in found), 0)


def doctor_lines(
    outcomes: Sequence[Outcome], note: str, chosen: int, state: ViewState, width: int, height: int
) -> list[Line]:
    glyphs = state.glyphs
    right = line((verdict(outcomes), "dim")) if outcomes else ()
    lines = [title("Doctor", right, width, glyphs)]
    if note:
        lines += [line((f" {part}", "notice")) for part in textwrap.wrap(note, width - 2)]
    if not outcomes:
        return lines
    below = _DETAILS[height >= _TALL]
    room = max(1, height - len(lines) - 1 - below)
    start = first_shown(chosen, len(outcomes), room)
    for index, outcome in enumerate(outcomes[start : start + room], start):
        finding = outcome.finding
        role = _ROLE[finding.status]
        row = line(
            (f" {_mark(finding.status, glyphs)} {finding.status:<8}", role),
            (f"{outcome.check.id:<17} ", "value"),
            (foreign(finding.found), role),
        )
        if index == chosen:
            row = fit_line((Span(glyphs.cursor + plain(row)[1:], "cursor"),), width, glyphs.cut, "cursor")
        lines.append(row)
    lines += [()] * (height - below - 1 - len(lines))
    lines.append(title("Meaning", (), width, glyphs))
    return lines + _details(outcomes[min(chosen, len(outcomes) - 1)], width, below)


def _mark(status: str, glyphs: Glyphs) -> str:
    return glyphs.good if status == "ok" else glyphs.severity[_MARK[status]]


def _details(outcome: Outcome, width: int, rows: int) -> list[Line]:
    check = outcome.check
    told = [(f"want: {check.want}", "text"), (f"why: {check.why}", "text")]
    if outcome.fix:
        told.append((f"fix: {outcome.fix}", "value"))
    if outcome.finding.status in ("warn", "fail") and check.id in FIXES:
        name, words = FIXES[check.id]
        told.append((f"enter: to the operation {name} {' '.join(words.values())}".rstrip(), "notice"))
    told.append((f"found: {foreign(outcome.finding.found)}", "dim"))
    lines = [line((f" {part}", role)) for text, role in told for part in textwrap.wrap(text, width - 2)]
    return (lines + [()] * rows)[:rows]


def doctor_spoken(outcomes: Sequence[Outcome], note: str) -> list[str]:
    said = [note] if note else []
    if outcomes:
        said.append(f"Doctor: {verdict(outcomes)}.")
    for outcome in outcomes:
        said.append(f"{outcome.finding.status}: {outcome.check.id}, {foreign(outcome.finding.found)}")
        if outcome.fix:
            said.append(f"  want: {outcome.check.want}; why: {outcome.check.why}; fix: {outcome.fix}")
    return said
