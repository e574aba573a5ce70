"""Comparisons that were kept: the rows of two arms found again in the ledger, paired, and judged as they were.

Rows of one comparison stand one behind the other, and no third arm comes between. What is judged is judged again,
so that a verdict cannot be older than the rule.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from orkbench_tui.errors import UsageError
from orkbench_tui.runner.bench.arms import Arm, TestVerdict, parse_arm, unreached, verdicts
from orkbench_tui.runner.bench.record import Row

__all__ = ["KeptComparison", "kept_comparisons"]

_APART_S = 6 * 3600.0


@dataclass(frozen=True, slots=True)
class KeptComparison:
    """``first`` and ``second`` are the arms' names, ``label`` whose clock the speeds are of."""

    first: str
    second: str
    taken_unix_s: float
    label: str
    verdicts: tuple[TestVerdict, ...]


def kept_comparisons(rows: Sequence[Row]) -> tuple[KeptComparison, ...]:
    """Every comparison among the rows, newest first; rows without an arm are no part of one."""
    groups: list[list[Row]] = []
    for row in sorted((row for row in rows if row.arm), key=lambda row: row.taken_unix_s):
        names = {other.arm for other in groups[-1]} if groups else set()
        apart = not groups or row.taken_unix_s - groups[-1][-1].taken_unix_s > _APART_S
        if apart or len(names | {row.arm}) > 2:
            groups.append([])
        groups[-1].append(row)
    found = [_judged(group) for group in groups if len({row.arm for row in group}) == 2]
    return tuple(reversed(found))


def _judged(group: Sequence[Row]) -> KeptComparison:
    first, second = dict.fromkeys(row.arm for row in group)
    sides = tuple([row for row in group if row.arm == name] for name in (first, second))
    arms: tuple[Arm, Arm] = (_arm(first), _arm(second))
    found = verdicts(
        sides[0],
        sides[1],
        interleaved=_in_turns(group),
        spoiled=_spoiled(group),
        idle=unreached(arms, (sides[0], sides[1])),
    )
    return KeptComparison(first, second, group[-1].taken_unix_s, group[0].label, tuple(found))


def _arm(name: str) -> Arm:
    """Of a file that anybody may have written: a name that is no arm changes nothing known."""
    try:
        return parse_arm(name)
    except UsageError:
        return Arm(name, ())


def _in_turns(group: Sequence[Row]) -> bool:
    """Each pair of one test has both arms."""
    for test in {row.case for row in group}:
        arms = [row.arm for row in group if row.case == test]
        if any(len(set(arms[at : at + 2])) < 2 for at in range(0, len(arms) - 1, 2)):
            return False
    return True


def _spoiled(group: Sequence[Row]) -> list[str]:
    """What holds for some rows and not for all happened meanwhile; what holds for all was so all along."""
    every = set.intersection(*(set(row.reasons) for row in group))
    reasons = [reason for row in group for reason in row.reasons if reason not in every]
    if len({(row.version, row.commit, row.kernels) for row in group}) > 1:
        reasons.append("measured with different builds")
    return list(dict.fromkeys(reasons))
