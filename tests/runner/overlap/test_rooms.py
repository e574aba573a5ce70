"""Two rooms at work: what runs together, what an error or a stop leaves behind."""

from __future__ import annotations

import threading

import pytest

from orkbench_tui.runner.overlap.order import Room, StepFacts
from orkbench_tui.runner.overlap.rooms import MicroBatch, run_overlapped, run_serial

PATTERN = [StepFacts(Room.CPU), StepFacts(Room.NPU), StepFacts(Room.CPU, 0, 0), StepFacts(Room.NPU)]
PATTERN += [StepFacts(Room.CPU)]


class Scripted:
    """Steps that note where they ran, and may do something."""

    def __init__(self, log: list[tuple[int, int, str]], batch: int, step: int, act=None) -> None:
        self.facts = PATTERN[step]
        self._note = log, batch, step
        self._act = act

    def run(self, rows: int, position: int) -> None:
        if self._act is not None:
            self._act()
        log, batch, step = self._note
        log.append((batch, step, threading.current_thread().name))


def batches(count: int, log: list, acts: dict | None = None, marks: list | None = None) -> list[MicroBatch]:
    marks = [] if marks is None else marks
    return [
        MicroBatch(
            [Scripted(log, batch, step, (acts or {}).get((batch, step))) for step in range(len(PATTERN))],
            3,
            10 * batch,
            lambda batch=batch: marks.append(("begin", batch)),
            lambda batch=batch: marks.append(("end", batch)),
        )
        for batch in range(count)
    ]


def never() -> bool:
    return False


def npu_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "npu-room"]


def test_a_step_on_the_npu_and_one_on_the_cpu_run_together() -> None:
    # Each waits for the other: run one after the other, neither would get past.
    meet = threading.Barrier(2, timeout=10)
    log: list = []
    marks: list = []
    count, times = run_overlapped(batches(2, log, {(0, 1): meet.wait, (1, 0): meet.wait}, marks), 2, never)
    assert count == 2 and len(log) == 2 * len(PATTERN)
    here = threading.current_thread().name
    assert all((name == "npu-room") == (PATTERN[step].room is Room.NPU) for _, step, name in log)
    assert {name for _, step, name in log if PATTERN[step].room is Room.CPU} == {here}
    assert marks == [("begin", 0), ("begin", 1), ("end", 0), ("end", 1)]
    assert times.wall_s > 0 and times.cpu_s > 0 and not npu_threads()


@pytest.mark.parametrize("at", [(0, 1), (1, 3), (0, 2), (1, 0)])
@pytest.mark.parametrize("error", [ValueError("broken"), KeyboardInterrupt()])
def test_a_failure_in_either_room_is_raised_once_nothing_runs_any_more(at, error) -> None:
    def fail() -> None:
        raise error

    log: list = []
    with pytest.raises(type(error)):
        run_overlapped(batches(3, log, {at: fail}), 2, never)
    assert not npu_threads()
    assert (2, len(PATTERN) - 1) not in {(batch, step) for batch, step, _ in log}
    again: list = []
    assert run_overlapped(batches(3, again), 2, never)[0] == 3


def test_a_stop_ends_what_is_under_way() -> None:
    log: list = []
    asked: list = []

    def stop_at_the_third() -> bool:
        asked.append(1)
        return len(asked) > 1

    count, _ = run_overlapped(batches(5, log), 2, stop_at_the_third)
    done = {batch for batch, step, _ in log if step == len(PATTERN) - 1}
    assert done == set(range(count)) == {0, 1} and len(log) == count * len(PATTERN)
    assert not npu_threads()


def test_serial_runs_in_order_here_and_stops_between() -> None:
    log: list = []
    answers = iter([False, True])
    count, times = run_serial(batches(4, log), lambda: next(answers))
    assert count == 2 and [(b, s) for b, s, _ in log] == [(b, s) for b in (0, 1) for s in range(len(PATTERN))]
    assert {name for *_, name in log} == {threading.current_thread().name}
    assert times.npu_s > 0
