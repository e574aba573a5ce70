"""Cases and what measuring one does: warm-up apart, pieces of a batch, Ctrl-C keeps what there is."""

from __future__ import annotations

import pytest

from orkbench_tui.errors import UsageError
from orkbench_tui.runner.bench.cases import Case, cases, whole_numbers, whole_pairs
from orkbench_tui.runner.bench.measure import measure, needed_context
from tests.runner.bench.fakes import FakeEngine


def test_every_combination_is_a_case_in_llama_bench_s_order() -> None:
    made = cases((512, 0), (128,), ((64, 16),), threads=(1, 4), batches=(2048,), micro_batches=(256,))
    assert [(case.test, case.threads) for case in made] == [
        ("pp512", 1),
        ("tg128", 1),
        ("pp64+tg16", 1),
        ("pp512", 4),
        ("tg128", 4),
        ("pp64+tg16", 4),
    ]
    assert needed_context(made) == 513


@pytest.mark.parametrize("text", ["", "a", "1,", "-1", "1.5", "²", "9999999999", "2000000"])
def test_what_is_no_whole_number_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        whole_numbers(text, "-p")


@pytest.mark.parametrize("text", ["64", "64,16,3", "0,16", "64,"])
def test_a_pair_is_two_numbers(text: str) -> None:
    with pytest.raises(UsageError):
        whole_pairs([text])
    assert whole_pairs(["64,16"]) == ((64, 16),)


def test_nothing_to_measure_is_an_error() -> None:
    with pytest.raises(UsageError, match="nothing to measure"):
        cases((0,), (0,), (), threads=(0,), batches=(1,), micro_batches=(1,))


def test_warm_up_is_not_in_the_figures() -> None:
    engine = FakeEngine()
    warm: list[int] = []
    found = measure(
        engine,
        Case(64, 0, 2048, 256, 0),
        3,
        clocks=engine.clocks(),
        on_warm=lambda: warm.append(len(engine.prefills)),
    )
    assert engine.prefills == [64] * 4 and warm == [1]
    assert [r.tokens_per_s for r in found.repetitions] == pytest.approx([1000.0] * 3)
    assert found.warm and not found.partial
    cold = measure(engine, Case(64, 0, 2048, 256, 0), 1, clocks=engine.clocks(), warm_up=False)
    assert not cold.warm and len(engine.prefills) == 5


def test_a_batch_goes_in_pieces() -> None:
    engine = FakeEngine()
    measure(engine, Case(300, 0, 2048, 128, 0), 1, clocks=engine.clocks(), warm_up=False)
    assert engine.prefills == [128, 128, 44]


def test_generation_begins_with_a_token_that_is_not_timed() -> None:
    engine = FakeEngine()
    found = measure(engine, Case(0, 20, 2048, 256, 0), 1, clocks=engine.clocks(), warm_up=False)
    assert engine.prefills == [1] and engine.decoded == 20
    assert found.repetitions[0].tokens_per_s == pytest.approx(100.0)
    assert found.repetitions[0].prompt_s == 0


def test_both_together_count_all_tokens() -> None:
    engine = FakeEngine()
    found = measure(engine, Case(50, 5, 2048, 256, 0), 1, clocks=engine.clocks(), warm_up=False).repetitions[
        0
    ]
    assert (found.tokens, found.prompt_s) == (55, pytest.approx(0.05))
    assert found.seconds == pytest.approx(0.1)


def test_stopping_keeps_what_was_measured() -> None:
    engine = FakeEngine()
    stops = iter([False] * 3 + [True] * 9)
    found = measure(
        engine, Case(64, 0, 2048, 256, 0), 5, clocks=engine.clocks(), should_stop=lambda: next(stops)
    )
    assert found.partial and len(found.repetitions) == 2


def test_what_does_not_fit_the_context_is_refused() -> None:
    with pytest.raises(UsageError, match="pp5000 needs 5000"):
        measure(FakeEngine(), Case(5000, 0, 2048, 256, 0), 1)


def test_npu_use_and_clock_steps_are_taken_per_repetition() -> None:
    engine = FakeEngine(wall_step_s=30.0)
    used = iter([(0, 0), (100, 3), (100, 3), (350, 8), (350, 8), (350, 9), (350, 9), (350, 9)])
    found = measure(
        engine,
        Case(60, 0, 2048, 256, 0),
        4,
        clocks=engine.clocks(),
        warm_up=False,
        npu_use=lambda: next(used),
    )
    assert [(r.npu_ns, r.submits) for r in found.repetitions] == [(100, 3), (250, 5), (None, 1), (0, 0)]
    assert [r.clock_step_s for r in found.repetitions] == pytest.approx([30.0, 0.0, 0.0, 0.0])
