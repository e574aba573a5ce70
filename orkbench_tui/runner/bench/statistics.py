"""Means, spreads, and when a difference is one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

__all__ = ["MIN_PAIRS", "Comparison", "Spread", "Verdict", "compare", "spread"]

Verdict = Literal["faster", "slower", "noise", "insufficient"]

MIN_PAIRS = 3
"""Fewer say nothing: one run of a pair may be an excursion."""

MIN_EFFECT = 0.01
"""Differences below one percent are noise whatever their interval says."""

# Two-sided 95 % points of Student's distribution by degrees of freedom.
_T95 = (
    12.71,
    4.303,
    3.182,
    2.776,
    2.571,
    2.447,
    2.365,
    2.306,
    2.262,
    2.228,
    2.201,
    2.179,
    2.160,
    2.145,
    2.131,
)
_T95_LARGE = 1.96


@dataclass(frozen=True, slots=True)
class Spread:
    """``sd`` is that of a sample, None for a single value."""

    mean: float
    sd: float | None
    count: int


@dataclass(frozen=True, slots=True)
class Comparison:
    """The second arm over the first, from ``pairs`` runs side by side.

    ``ratio`` is the geometric mean, ``low`` and ``high`` its 95 % interval (None below two pairs).
    """

    verdict: Verdict
    ratio: float | None
    low: float | None
    high: float | None
    pairs: int
    why: str


def spread(values: Sequence[float]) -> Spread:
    """ValueError for no values."""
    if not values:
        raise ValueError("no values")
    mean = math.fsum(values) / len(values)
    if len(values) == 1:
        return Spread(mean, None, 1)
    variance = math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)
    return Spread(mean, math.sqrt(variance), len(values))


def compare(first: Sequence[float], second: Sequence[float], *, interleaved: bool) -> Comparison:
    """Whether the second arm's speeds are higher; index i of both was measured side by side.

    ValueError for arms of different length or speeds that are not positive.
    """
    if len(first) != len(second):
        raise ValueError(f"{len(first)} and {len(second)} runs cannot be paired")
    if any(value <= 0 for value in (*first, *second)):
        raise ValueError("speeds must be positive")
    logs = [math.log(b / a) for a, b in zip(first, second, strict=True)]
    if not logs:
        return Comparison("insufficient", None, None, None, 0, "nothing was measured in both arms")
    found = spread(logs)
    ratio = math.exp(found.mean)
    if found.sd is None:
        return Comparison("insufficient", ratio, None, None, 1, f"1 pair, {MIN_PAIRS} wanted")
    degrees = len(logs) - 1
    t = _T95[degrees - 1] if degrees <= len(_T95) else _T95_LARGE
    half = t * found.sd / math.sqrt(len(logs))
    low, high = math.exp(found.mean - half), math.exp(found.mean + half)
    verdict, why = _judged(len(logs), ratio, low, high, interleaved)
    return Comparison(verdict, ratio, low, high, len(logs), why)


def _judged(pairs: int, ratio: float, low: float, high: float, interleaved: bool) -> tuple[Verdict, str]:
    if pairs < MIN_PAIRS:
        return "insufficient", f"{pairs} pairs, {MIN_PAIRS} wanted"
    if not interleaved:
        return (
            "insufficient",
            "the arms were not measured in turns, so drift cannot be told from a difference",
        )
    if low <= 1 <= high:
        return "noise", "the interval holds 1"
    if abs(ratio - 1) < MIN_EFFECT:
        return "noise", f"less than {MIN_EFFECT:.0%}"
    return ("faster" if ratio > 1 else "slower"), "the interval leaves out 1"
