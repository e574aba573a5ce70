"""The line for the one NPU: order, bounds, cancelling, and the two ways to end."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from orkbench_tui.runner.chat import Answer, GenerationLimits
from orkbench_tui.runner.sampler import Sampler, Sampling
from orkbench_tui.runner.serve.answer_queue import AnswerQueue, Job, QueueClosedError, QueueFullError
from orkbench_tui.runner.serve.slots import Slots
from tests.runner.byte_vocabulary import tokenizer
from tests.runner.scripted_engine import ScriptedEngine

WAIT_S = 20.0


class Line:
    """A queue over a scripted model, and what happened to its jobs."""

    def __init__(self, capacity: int = 8, before_decode: Callable[[], None] | None = None) -> None:
        words = tokenizer()
        engine = ScriptedEngine(words.vocab_size, words.encode("or w"), before_decode=before_decode)
        self.queue = AnswerQueue(Slots(engine, engine.another, 1), words, capacity)
        self.done: list[tuple[int, Answer]] = []
        self.failed: list[tuple[int, BaseException]] = []

    def job(self, number: int) -> Job:
        return Job(
            [number, 1, 2],
            Sampler(Sampling(temperature=0)),
            GenerationLimits(2),
            lambda text: None,
            lambda answer: self.done.append((number, answer)),
            lambda error: self.failed.append((number, error)),
        )

    def submit(self, number: int) -> Job:
        job = self.job(number)
        self.queue.submit(job)
        return job


def test_first_come_first_served() -> None:
    line = Line()
    for number in range(5):
        line.submit(number)
    line.queue.start()
    line.queue.close()
    assert [number for number, _ in line.done] == [0, 1, 2, 3, 4]


def test_places_and_bound() -> None:
    line = Line(capacity=2)
    jobs = [line.submit(0), line.submit(1)]
    assert [line.queue.before(job) for job in jobs] == [0, 1]
    with pytest.raises(QueueFullError):
        line.submit(2)
    line.queue.cancel(jobs[0])
    assert line.queue.before(jobs[0]) is None
    assert line.queue.submit(line.job(3)) == 1
    line.queue.start()
    line.queue.close()
    assert [number for number, _ in line.done] == [1, 3]


def test_closed_takes_nothing_and_finishes_what_is_there() -> None:
    reached, go_on = threading.Event(), threading.Event()

    def hold() -> None:
        reached.set()
        assert go_on.wait(WAIT_S)

    line = Line(before_decode=hold)
    line.submit(0)
    line.submit(1)
    line.queue.start()
    assert reached.wait(WAIT_S)
    closing = threading.Thread(target=line.queue.close)
    closing.start()
    while True:
        try:
            line.queue.cancel(line.submit(9))
        except QueueClosedError:
            break
    go_on.set()
    closing.join(WAIT_S)
    assert [(number, answer.stop_reason) for number, answer in line.done] == [(0, "length"), (1, "length")]


def test_dropped_jobs_fail_and_the_running_one_stops_between_steps() -> None:
    reached, go_on = threading.Event(), threading.Event()

    def hold() -> None:
        reached.set()
        assert go_on.wait(WAIT_S)

    line = Line(before_decode=hold)
    line.submit(0)
    line.submit(1)
    line.queue.start()
    assert reached.wait(WAIT_S)
    line.queue.drop()
    go_on.set()
    line.queue.close()
    assert [(number, type(error)) for number, error in line.failed] == [(1, QueueClosedError)]
    # The second token was on its way and is the limit.
    assert [number for number, _ in line.done] == [0]
