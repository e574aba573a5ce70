"""Verdicts: a difference needs pairs in turns and an interval that leaves out one."""

from __future__ import annotations

import math
import random

import pytest

from orkbench_tui.errors import UsageError
from orkbench_tui.runner.bench.arms import Arm, parse_arm, turns, unreached, verdict_lines, verdicts
from orkbench_tui.runner.bench.statistics import compare, spread
from tests.runner.bench.fakes import row


def test_spread_is_that_of_a_sample() -> None:
    found = spread([1, 2, 3, 4])
    assert (found.mean, found.sd) == (2.5, pytest.approx(math.sqrt(5 / 3)))
    assert spread([7]).sd is None
    with pytest.raises(ValueError, match="no values"):
        spread([])


def test_a_steady_difference_is_one() -> None:
    found = compare([100, 101, 99, 100], [110, 111.5, 108.5, 110], interleaved=True)
    assert found.verdict == "faster" and found.ratio == pytest.approx(1.1, abs=0.002)
    assert found.low is not None and found.low > 1
    assert compare([110, 111.5, 108.5], [100, 101, 99], interleaved=True).verdict == "slower"


def test_drift_that_both_arms_share_does_not_hide_a_difference() -> None:
    drift = [1.0, 0.8, 1.3, 0.7, 1.1]
    found = compare([100 * d for d in drift], [104 * d for d in drift], interleaved=True)
    assert found.verdict == "faster"


def test_scatter_is_noise() -> None:
    assert compare([100, 105, 95, 101], [101, 97, 104, 99], interleaved=True).verdict == "noise"
    assert compare([1000.0] * 4, [1001.0, 1001.1, 1000.9, 1001.0], interleaved=True).verdict == "noise"


@pytest.mark.parametrize("count", [0, 1, 2])
def test_fewer_than_three_pairs_say_nothing(count: int) -> None:
    assert compare([100.0] * count, [200.0] * count, interleaved=True).verdict == "insufficient"


def test_runs_that_were_not_in_turns_say_nothing() -> None:
    found = compare([100, 101, 99], [150, 151, 149], interleaved=False)
    assert found.verdict == "insufficient" and "turns" in found.why


def test_equal_arms_are_rarely_called_different() -> None:
    draw = random.Random(7)
    wrong = sum(
        compare(
            [draw.gauss(100, 5) for _ in range(5)], [draw.gauss(100, 5) for _ in range(5)], interleaved=True
        ).verdict
        != "noise"
        for _ in range(400)
    )
    assert wrong < 0.08 * 400


def test_pairs_of_different_length_or_no_speed_are_a_defect() -> None:
    with pytest.raises(ValueError, match="paired"):
        compare([1], [1, 2], interleaved=True)
    with pytest.raises(ValueError, match="positive"):
        compare([1, 0], [1, 2], interleaved=True)


def test_arms_take_turns_at_going_first() -> None:
    assert list(turns(3)) == [(0, 0), (0, 1), (1, 1), (1, 0), (2, 0), (2, 1)]


def test_an_arm_is_arithmetic_settings_or_a_model() -> None:
    assert parse_arm("w8a8").settings == (("quant", "w8a8"),)
    assert parse_arm("threads=2,quant=f32").settings == (("threads", "2"), ("quant", "f32"))
    assert parse_arm("some.orkpack").settings == (("model", "some.orkpack"),)
    for text in ("", " ", "threads=", "=2", "threads=2,"):
        with pytest.raises(UsageError):
            parse_arm(text)


def test_a_verdict_for_each_test_of_both_arms() -> None:
    first = [row([100, 101, 99]), row([10, 10, 10], prompt=0, generate=16)]
    second = [row([120, 121, 119])]
    found = verdicts(first, second, interleaved=True)
    assert [(v.test, v.comparison.verdict) for v in found] == [("pp64", "faster")]
    line = verdict_lines(Arm("a", ()), Arm("b", ()), found, label="host")[0]
    assert "b is 1.200 x a (host)" in line and "3 pairs: faster" in line


def test_what_happened_meanwhile_spoils_the_verdict() -> None:
    found = verdicts([row([100] * 3)], [row([150] * 3)], interleaved=True, spoiled=["throttled: npu fell"])
    assert found[0].comparison.verdict == "insufficient"
    assert found[0].comparison.why == "throttled: npu fell"


def test_turns_of_one_pair_each_are_put_together() -> None:
    first = [row([speed]) for speed in (100, 101, 99)]
    second = [row([speed]) for speed in (100, 99, 101)]
    assert verdicts(first, second, interleaved=True)[0].comparison.pairs == 3


def test_code_that_did_not_run_in_both_arms_is_not_compared() -> None:
    arms = (parse_arm("npu_workers=big"), parse_arm("npu_workers=any"))
    busy, idle = [row([100, 101, 99])], [row([150, 151, 149], submits=0)]
    assert unreached(arms, (busy, busy)) == {}
    found = unreached(arms, (busy, idle))
    assert "npu_workers=any submitted nothing" in found["pp64"] and "GRD-40" in found["pp64"]
    verdict = verdicts(busy, idle, interleaved=True, idle=found)[0].comparison
    assert verdict.verdict == "insufficient" and "GRD-40" in verdict.why and verdict.ratio is not None
    assert "npu_workers=big and npu_workers=any" in unreached(arms, (idle, idle))["pp64"]


def test_a_way_of_dispatch_is_reached_when_one_arm_uses_the_npu_and_a_model_always_is() -> None:
    arms = (parse_arm("dispatch=all=npu"), parse_arm("dispatch=all=cpu"))
    busy, idle = [row([100])], [row([150], submits=0)]
    assert unreached(arms, (busy, idle)) == {} and set(unreached(arms, (idle, idle))) == {"pp64"}
    for words in (("w8a8", "w8a8-rot"), ("threads=2", "threads=4"), ("a.orkpack", "b.orkpack")):
        assert unreached((parse_arm(words[0]), parse_arm(words[1])), (idle, idle)) == {}
