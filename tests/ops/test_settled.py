"""One look at a board: a core that seems wedged is looked at until that is certain."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from orkbench_tui.ops.telemetry.sample import Sample
from orkbench_tui.ops.telemetry.settled import settled
from orkbench_tui.ops.telemetry.stillness import STUCK_S
from tests.screens.feed import samples

SAMPLE = samples(3)[-1]


def busy(stuck_s: float, completions: float) -> Sample:
    cores = tuple(
        dataclasses.replace(core, load_pct=100, irq_per_s=completions, stuck_s=stuck_s)
        for core in SAMPLE.npu.cores
    )
    return dataclasses.replace(SAMPLE, npu=dataclasses.replace(SAMPLE.npu, cores=cores))


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


def looked_at(taken: Iterator[Sample]) -> tuple[Sample, float]:
    clock = Clock()
    return settled(lambda: next(taken), 0.5, steady=lambda: clock.now_s, sleep=clock.sleep), clock.now_s


def test_a_core_that_seems_wedged_is_watched_until_it_is_certain() -> None:
    sample, took_s = looked_at(busy(number * 0.5, 0.0) for number in range(100))
    assert sample.npu.cores[0].stuck_s == STUCK_S and took_s == STUCK_S


def test_one_that_completes_something_is_taken_at_once() -> None:
    assert looked_at(iter([busy(0.0, 12.0)]))[1] == 0.0
    assert looked_at(iter([SAMPLE])) == (SAMPLE, 0.0)
    worked = busy(0.0, 3.0)
    assert looked_at(iter([busy(0.5, 0.0), worked])) == (worked, 0.5)


def test_it_does_not_go_on_for_ever() -> None:
    _, took_s = looked_at(busy(0.0, 0.0) for _ in range(1000))
    assert STUCK_S < took_s <= STUCK_S + 1.0
