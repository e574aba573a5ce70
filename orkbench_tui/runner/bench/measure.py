"""Runs cases on an engine. Loading is over when it begins, and the warm-up is not in any figure."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from orkbench_tui.errors import UsageError
from orkbench_tui.runner.bench.cases import Case

__all__ = ["BenchEngine", "Clocks", "Measured", "Repetition", "measure", "needed_context"]


class BenchEngine(Protocol):
    """What is needed of an engine."""

    @property
    def vocab_size(self) -> int: ...
    @property
    def context(self) -> int: ...
    def prefill(self, tokens: Sequence[int]) -> Any: ...
    def decode(self, token: int) -> Any: ...
    def rewind(self, position: int) -> None: ...


@dataclass(frozen=True, slots=True)
class Clocks:
    """Both in seconds. A step of the wall clock shows against the steady one."""

    steady: Callable[[], float] = time.perf_counter
    wall: Callable[[], float] = time.time


@dataclass(frozen=True, slots=True)
class Repetition:
    """Times in seconds; ``prompt_s`` is the part of it that read the prompt. ``npu_ns`` is what the kernel
    reported for the jobs, None without an NPU and where a kernel reports nothing.
    """

    seconds: float
    prompt_s: float
    tokens: int
    npu_ns: int | None
    submits: int
    clock_step_s: float

    @property
    def tokens_per_s(self) -> float:
        return self.tokens / self.seconds


@dataclass(slots=True)
class Measured:
    """A case's repetitions, as many as there were time for."""

    case: Case
    warm: bool
    repetitions: list[Repetition] = field(default_factory=list)
    partial: bool = False


def needed_context(cases: Sequence[Case]) -> int:
    return max(case.tokens for case in cases) + 1


def measure(
    engine: BenchEngine,
    case: Case,
    repetitions: int,
    *,
    npu_use: Callable[[], tuple[int, int]] | None = None,
    warm_up: bool = True,
    clocks: Clocks | None = None,
    should_stop: Callable[[], bool] = lambda: False,
    on_warm: Callable[[], None] = lambda: None,
    on_repetition: Callable[[Repetition], None] = lambda repetition: None,
) -> Measured:
    """Repeat one case. Ctrl-C, or ``should_stop`` between two steps, ends it with what there is, marked partial.

    Args:
        npu_use: NPU time in ns and submits so far; None without an NPU.
        on_warm: called between the warm-up and the first repetition that counts.

    Raises:
        UsageError: the case does not fit the engine's context.
    """
    if case.tokens > engine.context:
        raise UsageError(
            f"{case.test} needs {case.tokens} tokens of context", why=f"there are {engine.context}"
        )
    clocks = clocks or Clocks()
    result = Measured(case, warm_up)
    try:
        if warm_up:
            _run(engine, case, clocks, npu_use, should_stop)
        on_warm()
        for _ in range(repetitions):
            repetition = _run(engine, case, clocks, npu_use, should_stop)
            result.repetitions.append(repetition)
            on_repetition(repetition)
    except KeyboardInterrupt:
        result.partial = True
    return result


def _run(
    engine: BenchEngine,
    case: Case,
    clocks: Clocks,
    npu_use: Callable[[], tuple[int, int]] | None,
    should_stop: Callable[[], bool],
) -> Repetition:
    ids = _tokens(engine.vocab_size, case.tokens + 1)
    engine.rewind(0)
    if not case.prompt:
        # Generation begins with something held, as in a conversation.
        engine.prefill(ids[:1])
    before = npu_use() if npu_use else (0, 0)
    wall, started = clocks.wall(), clocks.steady()
    for first in range(0, case.prompt, case.piece):
        _halt_if(should_stop)
        engine.prefill(ids[first : min(first + case.piece, case.prompt)])
    prompted = clocks.steady()
    for token in ids[case.prompt : case.tokens]:
        _halt_if(should_stop)
        engine.decode(token)
    ended, wall_ended = clocks.steady(), clocks.wall()
    after = npu_use() if npu_use else (0, 0)
    seconds = ended - started
    npu_ns, submits = after[0] - before[0], after[1] - before[1]
    return Repetition(
        seconds=seconds,
        prompt_s=prompted - started,
        tokens=case.tokens,
        npu_ns=npu_ns if npu_use and (npu_ns or not submits) else None,
        submits=submits,
        clock_step_s=(wall_ended - wall) - seconds,
    )


def _halt_if(should_stop: Callable[[], bool]) -> None:
    if should_stop():
        raise KeyboardInterrupt


def _tokens(vocabulary: int, count: int) -> list[int]:
    """The same tokens every time, spread over the vocabulary: their values do not change the work."""
    return [(7919 * index + 101) % vocabulary for index in range(count)]
