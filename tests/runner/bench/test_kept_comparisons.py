"""Comparisons found again in the ledger get the verdict they had, and what is none gets none."""

from __future__ import annotations

from dataclasses import replace

from orkbench_tui.runner.bench.kept_comparisons import kept_comparisons
from orkbench_tui.runner.bench.record import Row
from tests.runner.bench.fakes import row

ARMS = ("w8a8", "w8a8-rot")


def turns(speeds: list[tuple[float, float]], start: float = 0.0, names: tuple[str, str] = ARMS) -> list[Row]:
    """AB, BA, AB … one row each, a minute apart."""
    rows = []
    for pair, values in enumerate(speeds):
        order = (0, 1) if pair % 2 == 0 else (1, 0)
        rows += [
            row([values[arm]], arm=names[arm], taken=start + 60 * (2 * pair + at))
            for at, arm in enumerate(order)
        ]
    return rows


def test_three_pairs_in_turns_are_a_verdict_and_scatter_is_noise() -> None:
    (steady,) = kept_comparisons(turns([(100, 110), (101, 111), (99, 109)]))
    assert (steady.first, steady.second, steady.label) == ("w8a8", "w8a8-rot", "host")
    assert [v.comparison.verdict for v in steady.verdicts] == ["faster"] and steady.verdicts[
        0
    ].comparison.pairs == 3
    (noisy,) = kept_comparisons(turns([(100, 101), (105, 97), (95, 104), (101, 99)]))
    assert noisy.verdicts[0].comparison.verdict == "noise"
    (short,) = kept_comparisons(turns([(100, 200), (100, 200)]))
    assert short.verdicts[0].comparison.verdict == "insufficient"


def test_rows_one_arm_after_the_other_are_not_in_turns() -> None:
    rows = turns([(100, 110)] * 4)
    behind = sorted(rows, key=lambda r: r.arm)
    moved = [replace(r, taken_unix_s=float(60 * at)) for at, r in enumerate(behind)]
    assert "turns" in kept_comparisons(moved)[0].verdicts[0].comparison.why


def test_a_third_arm_or_a_long_pause_begins_another_and_single_rows_are_none() -> None:
    rows = [
        row([50.0], taken=5.0),
        *turns([(100, 110)] * 3),
        *turns([(10, 11)] * 3, start=5000.0, names=("threads=2", "threads=4")),
        *turns([(10, 11)] * 3, start=90_000.0, names=("threads=2", "threads=4")),
        row([1.0], arm="alone", taken=500_000.0),
    ]
    found = kept_comparisons(rows)
    assert [kept.first for kept in found] == ["threads=2", "threads=2", "w8a8"]
    assert all(len(v.first) == 3 for kept in found for v in kept.verdicts)
    assert kept_comparisons([row([1.0])]) == ()


def test_what_happened_in_some_runs_spoils_it_and_what_held_in_all_does_not() -> None:
    rows = turns([(100, 110), (101, 111), (99, 109)])
    same = [replace(r, reasons=("simulated board",)) for r in rows]
    assert kept_comparisons(same)[0].verdicts[0].comparison.verdict == "faster"
    one = [replace(same[0], reasons=(*same[0].reasons, "throttled: npu fell")), *same[1:]]
    assert "throttled" in kept_comparisons(one)[0].verdicts[0].comparison.why
    other = [replace(same[0], commit="c2"), *same[1:]]
    assert "different builds" in kept_comparisons(other)[0].verdicts[0].comparison.why


def test_arms_of_a_file_that_name_nothing_are_judged_all_the_same() -> None:
    (found,) = kept_comparisons(turns([(100, 110), (101, 111), (99, 109)], names=("=", "a=,")))
    assert found.verdicts[0].comparison.pairs == 3
