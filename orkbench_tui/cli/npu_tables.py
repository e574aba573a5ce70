"""``ork npu guards`` and ``ork npu modes``: tables the driver works by, printed."""

from __future__ import annotations

import dataclasses
import re
import shutil
import textwrap
from typing import TYPE_CHECKING, Annotated

import typer

from orkbench_tui.cli import output
from orkbench_tui.errors import UsageError

if TYPE_CHECKING:
    from orkbench_tui.driver.guards import Guard
    from orkbench_tui.driver.modes import ModeKnobs

__all__ = ["guards", "modes"]

Json = Annotated[bool, typer.Option("--json", help="One JSON document.")]

_MIN_WIDTH, _MAX_WIDTH = 60, 100


def _width() -> int:
    return min(max(shutil.get_terminal_size((80, 24)).columns, _MIN_WIDTH), _MAX_WIDTH)


def _row(head: str, text: str, width: int) -> str:
    return "\n".join(
        textwrap.wrap(
            text, width, initial_indent=head, subsequent_indent=" " * len(head), break_on_hyphens=False
        )
    )


def _guard_lines(rows: list[Guard], width: int) -> list[str]:
    head = "{:<6}  {:<13}  {:<10}  "
    lines = [head.format("guard", "reaction", "enforced") + "condition"]
    lines += [_row(head.format(row.id, row.reaction, row.enforced), row.condition, width) for row in rows]
    done = sum(bool(row.enforced_in) for row in rows)
    footer = f"{done} of {len(rows)} enforced; `ork npu guards ID` shows one with its evidence."
    lines += textwrap.wrap(footer, width)
    return lines


def _one_guard_lines(row: Guard, width: int) -> list[str]:
    fields = {
        "guard": f"{row.id} ({row.place})",
        "condition": row.condition,
        "consequence": row.consequence,
        "reaction": row.reaction.value,
        "instead": row.action,
        "enforced": f"{row.enforced}, by {row.enforced_in}" if row.enforced_in else row.enforced,
        **({"how": row.how} if row.how else {}),
        **({"where": row.stands_in} if row.stands_in else {}),
        "evidence": row.evidence,
    }
    return [_row(f"{name:<12} ", text, width) for name, text in fields.items()]


def _find_guard(word: str) -> Guard:
    from orkbench_tui.driver.guards import GUARDS

    match = re.fullmatch(r"(?:GRD-?)?(\d{1,2})", word, re.IGNORECASE | re.ASCII)
    row = GUARDS.get(f"GRD-{int(match[1]):02}") if match else None
    if row is None:
        raise UsageError(f"no guard {word}", why=f"allowed: {min(GUARDS)} to {max(GUARDS)}")
    return row


def guards(
    guard: Annotated[str | None, typer.Argument(metavar="[ID]", help="One guard, such as GRD-02.")] = None,
    json: Json = False,
) -> None:
    """What the driver refuses or warns of, why, and whether it is enforced yet."""
    from orkbench_tui.driver.guards import GUARDS

    rows = [_find_guard(guard)] if guard is not None else list(GUARDS.values())
    if json:
        data = [{**dataclasses.asdict(row), "enforced": row.enforced} for row in rows]
        output.emit_json("npu.guards", data, source="host")
        return
    lines = _guard_lines(rows, _width()) if guard is None else _one_guard_lines(rows[0], _width())
    output.emit("\n".join(lines))


_LEGEND = (
    "R reset the device ({} ms, published); W clear warm flags, Z forget scratch sizes, each "
    "p per core, s single-core, b both; K keep everything; . same mode."
)


def _mode_lines(knobs: ModeKnobs, width: int) -> list[str]:
    from orkbench_tui.driver.modes import POLICIES, RESET_MS, Mode, transition_table

    table = transition_table(knobs)
    codes = {key: step.code for key, step in table.items()}
    widths = [max(len(source), *(len(c) for k, c in codes.items() if k[1] is source)) for source in Mode]
    head = "{:<10} {:<9} "

    def line(first: str, second: str, cells: list[str]) -> str:
        padded = [f"{cell:<{size}}" for cell, size in zip(cells, widths, strict=True)]
        return (head.format(first, second) + " ".join(padded)).rstrip()

    lines = [line("profile", "to", [str(source) for source in Mode])]
    for profile, policy in POLICIES.items():
        for target in policy.targets:
            lines.append(line(profile, target, [codes[profile, source, target] for source in Mode]))
    settings = ", ".join(
        f"{name} {'on' if value else 'off'}" for name, value in dataclasses.asdict(knobs).items()
    )
    legend = textwrap.wrap(_LEGEND.format(RESET_MS), width)
    return [*lines, f"From the mode in the column; {settings}.", *legend]


def modes(
    nothrash: Annotated[bool, typer.Option(help="Keep integer modes warm among each other.")] = False,
    f16warm: Annotated[bool, typer.Option(help="Keep int8 and fp16 warm among each other.")] = True,
    sdp_noreset: Annotated[bool, typer.Option(help="Element-wise work enters without a reset.")] = True,
    json: Json = False,
) -> None:
    """What a change of precision mode costs: reset, re-warm or nothing, for every profile."""
    from orkbench_tui.driver.modes import ModeKnobs, transition_table

    knobs = ModeKnobs(nothrash=nothrash, f16warm=f16warm, sdp_noreset=sdp_noreset)
    if json:
        cells = [
            {
                "profile": step.profile,
                "from": step.source,
                "to": step.target,
                "reset": step.reset,
                "warm_clear": step.warm_clear.name.lower(),
                "size_clear": step.size_clear.name.lower(),
                "keep": step.keep,
                "code": step.code,
            }
            for step in transition_table(knobs).values()
        ]
        output.emit_json("npu.modes", {"knobs": dataclasses.asdict(knobs), "cells": cells}, source="host")
        return
    output.emit("\n".join(_mode_lines(knobs, _width())))
