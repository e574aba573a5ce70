"""The record of a change: before, after, their difference, and what shows that the change was reached.

A difference that was not measured is none, and "no effect" of something that never ran is none either.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from orkbench_tui.errors import InvalidFileError
from orkbench_tui.runner.bench.arms import TestVerdict

__all__ = ["CHANGE_SCHEMA", "ChangeRecord", "change_records", "parse_change"]

CHANGE_SCHEMA = "ork.bench.change/1"


@dataclass(frozen=True, slots=True)
class ChangeRecord:
    """``before`` and ``after`` in tokens per second, ``delta`` as a part of ``before``."""

    test: str
    before: float
    after: float
    delta: float
    pairs: int
    verdict: str
    reached: bool

    @property
    def accepted(self) -> bool:
        """Whether something may land because of it."""
        return self.verdict == "faster" and self.reached

    def document(self) -> dict[str, Any]:
        return {"schema": CHANGE_SCHEMA, **asdict(self), "accepted": self.accepted}


def change_records(found: Sequence[TestVerdict], idle: Mapping[str, str]) -> list[ChangeRecord]:
    """One record for each test measured in both arms.

    Args:
        idle: tests in which what the arms differ in did not run (``arms.unreached``).
    """
    records = []
    for row in found:
        if not row.first or not row.second:
            continue
        before, after = (math.fsum(speeds) / len(speeds) for speeds in (row.first, row.second))
        comparison = row.comparison
        records.append(
            ChangeRecord(
                row.test,
                before,
                after,
                after / before - 1,
                comparison.pairs,
                comparison.verdict,
                row.test not in idle,
            )
        )
    return records


def parse_change(document: Mapping[str, Any]) -> ChangeRecord:
    """A record read again.

    Raises:
        InvalidFileError: of another schema, or before, after or their difference is missing or does not fit.
    """
    if document.get("schema") != CHANGE_SCHEMA:
        raise InvalidFileError("a change record", why=f"its schema is not {CHANGE_SCHEMA}")
    figures: dict[str, float] = {}
    for name in ("before", "after", "delta"):
        figure = document.get(name)
        if isinstance(figure, bool) or not isinstance(figure, int | float) or not math.isfinite(figure):
            raise InvalidFileError(
                "a change record", why=f"{name} is missing: nothing lands without a measured delta"
            )
        figures[name] = float(figure)
    before, after = figures["before"], figures["after"]
    if min(before, after) <= 0 or abs(after / before - 1 - figures["delta"]) > 1e-6:
        raise InvalidFileError("a change record", why="its delta is not that of before and after")
    pairs = document.get("pairs")
    if isinstance(pairs, bool) or not isinstance(pairs, int) or pairs < 1:
        raise InvalidFileError("a change record", why="pairs must be a whole number from 1")
    texts = {name: document.get(name) for name in ("test", "verdict")}
    reached = document.get("reached")
    if not all(isinstance(text, str) for text in texts.values()) or not isinstance(reached, bool):
        raise InvalidFileError("a change record", why="test and verdict must be text, reached true or false")
    return ChangeRecord(
        str(texts["test"]), before, after, figures["delta"], pairs, str(texts["verdict"]), reached
    )
