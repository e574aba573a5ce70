"""``ork npu timing --what-if``: predictions about what nobody has built."""

from __future__ import annotations

import dataclasses
import textwrap
from typing import TYPE_CHECKING

from orkbench_tui.cli import output
from orkbench_tui.errors import UsageError

if TYPE_CHECKING:
    from orkbench_tui.driver.timing.what_ifs import Answer, WhatIf

__all__ = ["show_what_ifs"]

_WIDTH = 100


def show_what_ifs(word: str, given: list[str], json: bool) -> None:
    """Answer the question ``word``, or all for ``.``, with figures of the user's where they are given."""
    from orkbench_tui.driver.timing.what_ifs import answer, asked

    questions = asked(word)
    if given and len(questions) > 1:
        raise UsageError("--given with every question", do="name one with --what-if")
    found = [(question, *answer(question, given)) for question in questions]
    if json:
        data = {"what_ifs": [_facts(*row) for row in found]}
        output.emit_json("npu.timing.what-if", data, source="predicted")
        return
    output.emit("\n\n".join("\n".join(_lines(*row)) for row in found))


def _facts(question: WhatIf, figures: dict[str, float], result: Answer) -> dict[str, object]:
    return {
        "name": question.name,
        "question": question.question,
        "known": question.known,
        "given": [
            {
                "name": name,
                "value": figures[name],
                "standing": _standing(question, name, figures),
                "doc": knob.doc,
            }
            for name, knob in question.knobs.items()
        ],
        **dataclasses.asdict(result),
    }


def _standing(question: WhatIf, name: str, figures: dict[str, float]) -> str:
    knob = question.knobs[name]
    return knob.standing if figures[name] == knob.default else "given"


def _lines(question: WhatIf, figures: dict[str, float], result: Answer) -> list[str]:
    given = ", ".join(
        f"{name}={figures[name]:g} ({_standing(question, name, figures)})" for name in question.knobs
    )
    cells = [[_cell(value) for value in row] for row in result.rows]
    table = [list(result.columns), *cells]
    widths = [max(len(row[i]) for row in table) for i in range(len(result.columns))]
    return [
        f"{question.name}: {question.question}",
        *_wrapped("given", given),
        *("  " + "  ".join(_fitted(row, widths)).rstrip() for row in table),
        f"  figures are {result.label}",
        *(line for note in result.notes for line in _wrapped("", note)),
        *_wrapped("known", question.known),
    ]


def _fitted(row: list[str], widths: list[int]) -> list[str]:
    """Words to the left, figures to the right; what is last needs no room behind it."""
    return [
        cell.ljust(width) if i in (0, len(row) - 1) else cell.rjust(width)
        for i, (cell, width) in enumerate(zip(row, widths, strict=True))
    ]


def _cell(value: str | float) -> str:
    return value if isinstance(value, str) else f"{value:.4g}" if value < 1e4 else f"{value:.0f}"


def _wrapped(head: str, text: str) -> list[str]:
    room = " " * (8 if head else 2)
    return textwrap.wrap(
        text,
        _WIDTH,
        initial_indent=f"  {head:<6}" if head else room,
        subsequent_indent=room,
        break_on_hyphens=False,
    )
