"""Two configurations in turns: what each arm changes, in which order they run, and what came of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from orkbench_tui.errors import UsageError
from orkbench_tui.runner.bench.record import Row
from orkbench_tui.runner.bench.statistics import Comparison, compare

__all__ = ["Arm", "TestVerdict", "parse_arm", "turns", "unreached", "verdict_lines", "verdicts"]

_QUANTS = ("f32", "w8a8-rot", "w8a8")


@dataclass(frozen=True, slots=True)
class Arm:
    """``name`` as the user gave it; ``settings`` are those it changes, as text."""

    name: str
    settings: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class TestVerdict:
    """``first`` and ``second`` are the speeds of the two arms, pair by pair."""

    __test__ = False  # not a test class

    test: str
    first: tuple[float, ...]
    second: tuple[float, ...]
    comparison: Comparison


def parse_arm(text: str) -> Arm:
    """``w8a8`` (arithmetic), ``threads=2`` or several such with commas, or a model's name or file.

    Raises:
        UsageError: an empty part.
    """
    if not text.strip():
        raise UsageError(
            "an arm of the comparison is empty", do="name arithmetic, a setting=value, or a model"
        )
    if text in _QUANTS:
        return Arm(text, (("quant", text),))
    if "=" not in text:
        return Arm(text, (("model", text),))
    parts = [part.partition("=") for part in text.split(",")]
    if any(not name or not value for name, _, value in parts):
        raise UsageError(f"arm {text!r}", why="expected setting=value, with commas between several")
    return Arm(text, tuple((name, value) for name, _, value in parts))


# What a setting acts on; a comparison of it says nothing where that never ran.
_BOTH_USE_THE_NPU = frozenset({"npu_workers", "overlap", "npu_timeout_ms", "sim_pace"})
_ONE_USES_THE_NPU = frozenset({"dispatch"})


def unreached(arms: tuple[Arm, Arm], rows: tuple[Sequence[Row], Sequence[Row]]) -> dict[str, str]:
    """Tests in which the code the arms differ in did not run, each with the reason (GRD-40)."""
    names = {name for arm in arms for name, _ in arm.settings}
    if not names or not names <= _BOTH_USE_THE_NPU | _ONE_USES_THE_NPU:
        # A model or another arithmetic is reached by whatever computes.
        return {}
    found = {}
    for test in {row.case.test for row in rows[0]} & {row.case.test for row in rows[1]}:
        used = [any(row.submits for row in side if row.case.test == test) for side in rows]
        idle = [arm.name for arm, busy in zip(arms, used, strict=True) if not busy]
        if idle if names & _BOTH_USE_THE_NPU else not any(used):
            found[test] = (
                f"{' and '.join(idle)} submitted nothing to the NPU: what the arms differ in did not run (GRD-40)"
            )
    return found


def turns(pairs: int) -> Iterator[tuple[int, int]]:
    """(pair, arm) in the order they run: AB, BA, AB, … so that drift weighs on both alike."""
    for pair in range(pairs):
        for arm in (0, 1) if pair % 2 == 0 else (1, 0):
            yield pair, arm


def verdicts(
    first: Sequence[Row],
    second: Sequence[Row],
    *,
    interleaved: bool,
    spoiled: Sequence[str] = (),
    idle: Mapping[str, str] = MappingProxyType({}),
) -> list[TestVerdict]:
    """One verdict for each test both arms have.

    Args:
        interleaved: the arms were measured in turns.
        spoiled: what happened meanwhile that makes any difference meaningless.
        idle: tests in which what is compared did not run, with the reason.
    """
    found = []
    mine, theirs = _by_test(first), _by_test(second)
    for test, left in mine.items():
        right = theirs.get(test)
        if right is None:
            continue
        count = min(len(left), len(right))
        comparison = compare(left[:count], right[:count], interleaved=interleaved)
        reasons = [*spoiled, *filter(None, [idle.get(test.partition(" ")[0])])]
        if reasons:
            comparison = Comparison(
                "insufficient",
                comparison.ratio,
                comparison.low,
                comparison.high,
                comparison.pairs,
                "; ".join(reasons),
            )
        found.append(TestVerdict(test, tuple(left[:count]), tuple(right[:count]), comparison))
    return found


def _by_test(rows: Sequence[Row]) -> dict[str, list[float]]:
    speeds: dict[str, list[float]] = {}
    for row in rows:
        key = f"{row.case.test} b{row.case.batch} t{row.threads}" if _several(rows, row) else row.case.test
        speeds.setdefault(key, []).extend(row.speeds)
    return speeds


def _several(rows: Sequence[Row], row: Row) -> bool:
    same = {(r.case.batch, r.case.micro_batch, r.threads) for r in rows if r.case.test == row.case.test}
    return len(same) > 1


def verdict_lines(first: Arm, second: Arm, found: Sequence[TestVerdict], *, label: str) -> list[str]:
    """One line a test; ``label`` says whose clock the ratios are of."""
    lines = []
    for row in found:
        c = row.comparison
        if c.ratio is None:
            lines.append(f"{row.test}: {second.name} against {first.name}: {c.verdict} ({c.why})")
            continue
        span = "" if c.low is None else f", 95 % between {c.low:.3f} and {c.high:.3f}"
        lines.append(
            f"{row.test}: {second.name} is {c.ratio:.3f} x {first.name} ({label}){span}, "
            f"{c.pairs} pair{'' if c.pairs == 1 else 's'}: "
            f"{c.verdict} ({c.why})"
        )
    return lines
