"""What the driver works by: the guards, and what a change of precision mode costs. Tables of the driver, as rows."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from orkbench_tui.driver.guard_table import GUARDS, Guard, Reaction
from orkbench_tui.driver.modes import POLICIES, RESET_MS, Mode, ModeKnobs, transition_table
from orkbench_tui.screens.listing import first_shown
from orkbench_tui.screens.text_line import Line, Span, fit, line, plain
from orkbench_tui.screens.view_state import ViewState
from orkbench_tui.screens.views.section import title

__all__ = ["REACTION_ROLES", "RulesShown", "rule_count", "rules_lines", "rules_spoken"]

_GUARDS: tuple[Guard, ...] = tuple(GUARDS.values())
_CHANGES: tuple[tuple[str, str], ...] = tuple(
    (str(profile), str(target)) for profile, policy in POLICIES.items() for target in policy.targets
)
REACTION_ROLES: dict[Reaction, str] = {
    Reaction.REFUSE: "error",
    Reaction.REFUSE_UNLESS: "warning",
    Reaction.ROUTE: "notice",
    Reaction.WARN: "notice",
    Reaction.ABSENT: "dim",
}


@dataclass(frozen=True, slots=True)
class RulesShown:
    """``modes`` shows the changes of mode instead of the guards."""

    modes: bool = False
    chosen: int = 0


def rule_count(shown: RulesShown) -> int:
    return len(_CHANGES if shown.modes else _GUARDS)


def rules_lines(shown: RulesShown, state: ViewState, width: int, height: int) -> list[Line]:
    glyphs = state.glyphs
    name = "Changes of precision mode" if shown.modes else "Guards"
    other = "guards" if shown.modes else "changes of mode"
    right = line((f"{rule_count(shown)} rows {glyphs.dot} o: {other}", "dim"))
    lines = [title(name, right, width, glyphs), line((_heads(shown), "dim"))]
    told = _mode_details(shown.chosen, width < 80) if shown.modes else _guard_details(_GUARDS[shown.chosen])
    details = [line((f" {part}", role)) for text, role in told for part in textwrap.wrap(text, width - 2)]
    details = details[: max(3, height // 2)]
    room = max(1, height - len(lines) - 1 - len(details))
    start = first_shown(shown.chosen, rule_count(shown), room)
    for index in range(start, min(start + room, rule_count(shown))):
        row = _change(index) if shown.modes else _guard(_GUARDS[index])
        if index == shown.chosen:
            row = fit((Span(glyphs.cursor + plain(row)[1:], "cursor"),), width, glyphs.cut, "cursor")
        lines.append(row)
    lines += [()] * (height - len(lines) - 1 - len(details))
    return [*lines, title("Chosen", (), width, glyphs), *details]


def _cell(mode: Mode) -> int:
    """Columns of a mode: its name or the longest code, so that seven of them fit 80."""
    return max(len(str(mode)), 7)


def _codes(index: int) -> dict[str, str]:
    profile, target = _CHANGES[index]
    return {
        str(source): step.code
        for (a_profile, source, a_target), step in transition_table(ModeKnobs()).items()
        if (str(a_profile), str(a_target)) == (profile, target)
    }


def _heads(shown: RulesShown) -> str:
    if shown.modes:
        return f" {'profile':<10} {'to':<8} " + " ".join(f"{mode!s:<{_cell(mode)}}" for mode in Mode)
    return f" {'guard':<7} {'reaction':<14} {'enforced':<11} condition"


def _guard(guard: Guard) -> Line:
    return line(
        (f" {guard.id:<7} ", "value"),
        (f"{guard.reaction!s:<14} ", REACTION_ROLES[guard.reaction]),
        (f"{guard.enforced:<11} ", "dim"),
        (guard.condition, "text"),
    )


def _guard_details(guard: Guard) -> Sequence[tuple[str, str]]:
    told = [
        (f"{guard.id}, {guard.place}: {guard.condition}", "value"),
        (f"consequence: {guard.consequence}", "text"),
        (f"instead: {guard.action}", "text"),
        (f"evidence: {guard.evidence}", "dim"),
    ]
    held = guard.enforced_in or guard.how or guard.stands_in
    return [*told, (f"enforced {guard.enforced}{f': {held}' if held else ''}", "dim")]


def _change(index: int) -> Line:
    profile, target = _CHANGES[index]
    cells = _codes(index)
    codes = " ".join(f"{cells[str(mode)]:<{_cell(mode)}}" for mode in Mode)
    return line((f" {profile:<10} {target:<8} ", "value"), (codes.rstrip(), "text"))


def _mode_details(index: int, narrow: bool) -> Sequence[tuple[str, str]]:
    """``narrow``: the table is cut at its right edge, so the chosen row is told in full."""
    profile, target = _CHANGES[index]
    cells = ", ".join(f"{mode} {code}" for mode, code in _codes(index).items())
    return [
        *([(cells, "value")] if narrow else []),
        (f"{profile} to {target}, from the mode in the column, with the driver's own settings", "value"),
        (
            f"R resets the device ({RESET_MS} ms, published); W clears warm flags, Z forgets scratch sizes",
            "text",
        ),
        ("each p per core, s single-core, b both; K keeps everything; . is the same mode", "text"),
        ("`ork npu modes` prints the table for other settings", "dim"),
    ]


def rules_spoken() -> list[str]:
    """Guards alone: a matrix says nothing when read aloud, and `ork npu modes --json` has it."""
    return [
        f"{guard.id}, {guard.reaction}: {guard.condition}. Consequence: {guard.consequence}. Instead: {guard.action}."
        for guard in _GUARDS
    ]
