"""Sampling: order and meaning of the steps, determinism, refusals."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from orkbench_tui.errors import UnhealthyError, UsageError
from orkbench_tui.runner.sampler import Sampler, Sampling

OFF = {"top_k": 0, "top_p": 1.0, "min_p": 0.0, "temperature": 1.0, "seed": 1}
LOGITS = arrays(np.float32, st.integers(1, 60), elements=st.floats(-50, 50, width=32))


def drawn(logits: list[float] | np.ndarray, count: int = 400, **changes: object) -> Counter[int]:
    sampler = Sampler(Sampling(**{**OFF, **changes}))  # type: ignore[arg-type]
    values = np.array(logits, dtype=np.float32)
    return Counter(sampler.pick(values, ()) for _ in range(count))


def log(*probabilities: float) -> list[float]:
    return [math.log(p) for p in probabilities]


def test_temperature_zero_takes_the_best_and_the_lowest_id_of_equals() -> None:
    assert drawn([1.0, 3.0, 3.0, 2.0], 5, temperature=0.0) == {1: 5}


def test_top_k_takes_the_lowest_ids_of_equals() -> None:
    assert set(drawn([0.0, 1.0, 1.0, 1.0], top_k=2)) == {1, 2}


def test_top_p_keeps_the_token_that_crosses() -> None:
    assert set(drawn(log(0.5, 0.3, 0.15, 0.05), top_p=0.6)) == {0, 1}
    assert set(drawn(log(0.5, 0.3, 0.15, 0.05), top_p=0.0)) == {0}


def test_top_p_counts_before_temperature() -> None:
    # At temperature 9 the four are nearly equal and 0.6 would keep three of them.
    assert set(drawn(log(0.5, 0.3, 0.15, 0.05), top_p=0.6, temperature=9.0)) == {0, 1}


def test_top_p_counts_on_what_top_k_left() -> None:
    assert set(drawn(log(0.4, 0.3, 0.2, 0.1), top_k=2, top_p=0.55)) == {0}


def test_min_p_is_relative_to_the_best() -> None:
    assert set(drawn(log(0.6, 0.25, 0.1, 0.05), min_p=0.3)) == {0, 1}
    assert set(drawn(log(0.6, 0.4), min_p=1.0)) == {0}


def test_temperature_sharpens() -> None:
    hot, cold = drawn(log(0.6, 0.4), temperature=5.0), drawn(log(0.6, 0.4), temperature=0.2)
    assert hot[1] > cold[1]


def test_draws_follow_the_probabilities() -> None:
    counts = drawn(log(0.7, 0.2, 0.1), 4000)
    assert [round(counts[i] / 4000, 1) for i in range(3)] == [0.7, 0.2, 0.1]


def test_repeat_penalty_divides_positive_and_multiplies_negative_logits_once() -> None:
    sampler = Sampler(Sampling(temperature=0.0, repeat_penalty=2.0))
    assert sampler.pick(np.array([4.0, 3.0], np.float32), [0, 0, 0]) == 1
    assert sampler.pick(np.array([4.0, 1.9], np.float32), [0, 0, 0]) == 0
    assert sampler.pick(np.array([-1.0, -1.5], np.float32), [0]) == 1


def test_repeat_penalty_forgets_what_is_long_ago() -> None:
    sampler = Sampler(Sampling(temperature=0.0, repeat_penalty=9.0, repeat_last_n=2))
    assert sampler.pick(np.array([4.0, 3.0, 0.0], np.float32), [0, 2, 2]) == 0


@given(LOGITS, st.integers(0, 70), st.floats(0, 1), st.floats(0, 1), st.floats(0, 5), st.integers(0, 9))
def test_any_setting_gives_a_token_and_the_same_again(
    logits: np.ndarray, top_k: int, top_p: float, min_p: float, temperature: float, seed: int
) -> None:
    sampling = Sampling(temperature, top_k, top_p, min_p, repeat_penalty=1.1, seed=seed)
    before = logits.copy()
    first, second = Sampler(sampling), Sampler(sampling)
    history = [0]
    picks = [first.pick(logits, history) for _ in range(3)]
    assert picks == [second.pick(logits, history) for _ in range(3)]
    assert all(0 <= pick < logits.size for pick in picks)
    assert np.array_equal(before, logits)


@given(LOGITS, st.integers(1, 60))
def test_top_k_equals_sorting(logits: np.ndarray, top_k: int) -> None:
    best = np.argsort(-logits, kind="stable")[:top_k]
    sampler = Sampler(Sampling(**{**OFF, "top_k": top_k, "temperature": 100.0}))  # type: ignore[arg-type]
    assert {sampler.pick(logits, ()) for _ in range(20)} <= set(best.tolist())


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_unusable_logits_are_counted(bad: float) -> None:
    with pytest.raises(UnhealthyError, match="1 of 3"):
        Sampler(Sampling()).pick(np.array([1.0, bad, 0.0], np.float32), ())


def test_infinities_that_cancel_are_seen() -> None:
    with pytest.raises(UnhealthyError, match="2 of 2"):
        Sampler(Sampling()).pick(np.array([math.inf, -math.inf], np.float32), ())


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("temperature", -0.1),
        ("temperature", math.nan),
        ("top_k", -1),
        ("top_p", 1.5),
        ("top_p", -0.1),
        ("min_p", 2.0),
        ("repeat_penalty", 0.0),
        ("seed", -1),
    ],
)
def test_out_of_range_is_a_usage_error_naming_the_flag(name: str, value: float) -> None:
    with pytest.raises(UsageError, match="--" + name.replace("_", "-")):
        Sampling(**{name: value})  # type: ignore[arg-type]


def test_model_recommends_and_flags_decide() -> None:
    metadata = {"general.sampling.temp": 0.3, "general.sampling.top_k": 7, "general.sampling.top_p": 9.0}
    sampling = Sampling.of(metadata, top_k=5, min_p=None)
    assert (sampling.temperature, sampling.top_k, sampling.top_p) == (0.3, 5, 0.95)
