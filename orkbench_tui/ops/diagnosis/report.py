"""Verdicts as text: what, why, what to do, what not."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from orkbench_tui.ops.diagnosis.evidence import Evidence
from orkbench_tui.ops.diagnosis.verdict import Verdict
from orkbench_tui.plain_text import one_line

__all__ = ["COLUMNS", "diagnosis_lines", "notes"]

COLUMNS = 80


def _wrapped(text: str, first: str, rest: str) -> list[str]:
    return textwrap.wrap(one_line(text, 1000), COLUMNS, initial_indent=first, subsequent_indent=rest)


def diagnosis_lines(
    verdicts: Sequence[Verdict], evidence: Evidence, unfinished: Sequence[str] = ()
) -> list[str]:
    """At most 80 columns. Quoted lines begin with ``|``, so that foreign text cannot pass for advice.

    ``unfinished`` are operations on this board that were interrupted.
    """
    lines: list[str] = []
    for number, verdict in enumerate(verdicts, 1):
        lines += _wrapped(
            f"{number}. {verdict.severity.word.upper()} {verdict.kind}: {verdict.title}", "", "   "
        )
        for text in verdict.evidence:
            lines += _wrapped(text, "   | ", "   | ")
        for text in verdict.advice:
            lines += _wrapped(text, "   do: ", "       ")
        for text in verdict.refuse:
            lines += _wrapped(text, "   not: ", "        ")
    for text in (*unfinished, *notes(evidence)):
        lines += _wrapped(text, "note: ", "      ")
    return lines


def notes(evidence: Evidence) -> list[str]:
    """What was not looked at: files nobody knows, sources that could not be read."""
    said = []
    if evidence.unknown_files:
        said.append(f"not understood: {', '.join(evidence.unknown_files[:12])}")
    for item in evidence.capture.unreadable:
        said.append(f"not read: {item.path} ({item.reason}{' ' + item.errno if item.errno else ''})")
    return said
