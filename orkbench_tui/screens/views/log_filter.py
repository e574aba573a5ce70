"""Which rows of the kernel log a reader wants: by text, class, severity, and without noise. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from orkbench_tui.ops.kernel_log.folding import LogRow
from orkbench_tui.ops.kernel_log.rules import Severity

__all__ = ["STEPS", "LogFilter", "next_event"]

STEPS = (Severity.DEBUG, Severity.NOTICE, Severity.WARNING, Severity.ERROR)
"""The severities a reader steps through; the first means all."""

_MAX_PATTERN = 200


@dataclass(frozen=True, slots=True)
class LogFilter:
    """``text`` is a regular expression, or plain text where it is none; a leading ``!`` turns it round.

    ``only`` is a rule's id, "" for all classes.
    """

    noise: bool = False
    least: Severity = Severity.DEBUG
    only: str = ""
    text: str = ""

    def rows(self, rows: Sequence[LogRow]) -> tuple[LogRow, ...]:
        wanted = self._wanted()
        return tuple(
            row
            for row in rows
            if (self.noise or row.severity > Severity.DEBUG)
            and row.severity >= self.least
            and (not self.only or row.rule_id == self.only)
            and wanted(row)
        )

    def _wanted(self) -> Callable[[LogRow], bool]:
        inverse = self.text.startswith("!")
        text = (self.text[1:] if inverse else self.text)[:_MAX_PATTERN]
        if not text:
            return lambda row: True
        pattern = compiled(text)
        return lambda row: (
            inverse is not any(pattern.search(part) for part in (row.message, row.rule_id, *row.lines))
        )

    def words(self) -> str:
        """The filter in words; "" when everything but noise is shown."""
        parts = ["noise too"] if self.noise else []
        if self.least > Severity.DEBUG:
            parts.append(f"{self.least.word} and worse")
        if self.only:
            parts.append(f"class {self.only}")
        if self.text.lstrip("!"):
            parts.append(f"{'without' if self.text.startswith('!') else 'with'} {self.text.lstrip('!')!r}")
        return ", ".join(parts)


def compiled(text: str) -> re.Pattern[str]:
    """``text`` as a pattern, case ignored; taken literally where it is no pattern, or one that may not end."""
    # Nested repetition can take for ever on a long line; such a text is looked for as it stands.
    risky = re.search(r"[*+}]\)?[*+{]|\([^)]*[*+|][^)]*\)[*+{]", text)
    try:
        return re.compile(re.escape(text) if risky else text, re.IGNORECASE)
    except (re.error, OverflowError, RecursionError):
        return re.compile(re.escape(text), re.IGNORECASE)


def next_event(rows: Sequence[LogRow], chosen: int, direction: int) -> int:
    """The nearest row of warning or worse from ``chosen`` in ``direction``; ``chosen`` when there is none."""
    order = range(chosen + 1, len(rows)) if direction > 0 else range(chosen - 1, -1, -1)
    return next((index for index in order if rows[index].severity >= Severity.WARNING), chosen)
