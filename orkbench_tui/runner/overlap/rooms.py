"""Running micro-batches in two rooms: the caller's thread does the processor's steps, one more waits for the NPU."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from orkbench_tui.runner.overlap.order import Order, Room, StepFacts

__all__ = ["MicroBatch", "RoomTimes", "RunnableStep", "run_overlapped", "run_serial"]


class RunnableStep(Protocol):
    """One step of a compiled program."""

    @property
    def facts(self) -> StepFacts: ...

    def run(self, rows: int, position: int) -> None: ...


@dataclass(frozen=True, slots=True, eq=False)
class MicroBatch:
    """``rows`` tokens, the first at ``position``. ``begin`` fills the program's input, ``end`` takes its output.

    Both belong to the processor, as the first step and the last do; ``begin`` comes once the micro-batch
    ``in_flight`` places before has ended.
    """

    steps: Sequence[RunnableStep]
    rows: int
    position: int
    begin: Callable[[], None]
    end: Callable[[], None]


@dataclass(frozen=True, slots=True)
class RoomTimes:
    """Seconds of this machine's clock in which each room had work, and from the first step to the last."""

    cpu_s: float = 0.0
    npu_s: float = 0.0
    wall_s: float = 0.0

    def __add__(self, other: RoomTimes) -> RoomTimes:
        return RoomTimes(self.cpu_s + other.cpu_s, self.npu_s + other.npu_s, self.wall_s + other.wall_s)


class _Clock:
    def __init__(self) -> None:
        self._started = time.perf_counter()
        self._busy = dict.fromkeys(Room, 0.0)

    def run(self, room: Room, work: Callable[[], None]) -> None:
        before = time.perf_counter()
        work()
        self._busy[room] += time.perf_counter() - before

    @property
    def times(self) -> RoomTimes:
        wall = time.perf_counter() - self._started
        return RoomTimes(self._busy[Room.CPU], self._busy[Room.NPU], wall)


def run_serial(batches: Sequence[MicroBatch], should_stop: Callable[[], bool]) -> tuple[int, RoomTimes]:
    """One micro-batch after the other in the caller's thread; how many ran, and what it took.

    ``should_stop`` is asked before each but the first.
    """
    clock = _Clock()
    for index, batch in enumerate(batches):
        if index and should_stop():
            return index, clock.times
        clock.run(Room.CPU, batch.begin)
        for step in batch.steps:
            clock.run(step.facts.room, lambda step=step, batch=batch: step.run(batch.rows, batch.position))  # type: ignore[misc]
        clock.run(Room.CPU, batch.end)
    return len(batches), clock.times


def run_overlapped(
    batches: Sequence[MicroBatch], in_flight: int, should_stop: Callable[[], bool]
) -> tuple[int, RoomTimes]:
    """``in_flight`` micro-batches at a time, as ``Order`` allows; how many ran, and what it took.

    Micro-batches whose places differ by ``in_flight`` may share memory. After ``should_stop`` said yes no
    further one begins, those under way are finished.

    Raises:
        whatever a step raised first. The other room's step is waited for, so nothing runs any more then.
    """
    return _Rooms(batches, in_flight, should_stop).run()


class _Rooms:
    def __init__(
        self, batches: Sequence[MicroBatch], in_flight: int, should_stop: Callable[[], bool]
    ) -> None:
        self._batches = batches
        self._should_stop = should_stop
        self._order = Order([[step.facts for step in batch.steps] for batch in batches], in_flight)
        self._changed = threading.Condition()
        self._clock = _Clock()
        self._failure: BaseException | None = None
        self._over = False

    def run(self) -> tuple[int, RoomTimes]:
        waiter = threading.Thread(target=self._npu, name="npu-room")
        waiter.start()
        try:
            self._cpu()
        finally:
            with self._changed:
                self._over = True
                self._changed.notify_all()
            waiter.join()
        if self._failure is not None:
            raise self._failure
        return self._order.finished, self._clock.times

    def _cpu(self) -> None:
        while (ready := self._take(Room.CPU)) is not None:
            self._work(Room.CPU, *ready)

    def _npu(self) -> None:
        try:
            while (ready := self._take(Room.NPU)) is not None:
                self._work(Room.NPU, *ready)
        except BaseException as error:  # noqa: BLE001 - carried to the thread that asked for the run
            with self._changed:
                self._failure = error
                self._changed.notify_all()

    def _take(self, room: Room) -> tuple[int, int] | None:
        """Waits for a step of this room; None when there will be none."""
        with self._changed:
            while True:
                if self._over or self._failure is not None or self._order.complete:
                    return None
                ready = self._order.next_for(room)
                if ready is None:
                    self._changed.wait()
                elif self._may_begin(*ready):
                    self._order.start(ready[0])
                    return ready

    def _may_begin(self, batch: int, step: int) -> bool:
        """False, and the order shortened, where a new micro-batch would begin after a stop."""
        if step or not batch or not self._should_stop():
            return True
        self._order.begin_no_more()
        return False

    def _work(self, room: Room, batch: int, step: int) -> None:
        work = self._batches[batch]

        def all_of_it() -> None:
            if not step:
                work.begin()
            work.steps[step].run(work.rows, work.position)
            if step == len(work.steps) - 1:
                work.end()

        self._clock.run(room, all_of_it)
        with self._changed:
            self._order.finish(batch)
            self._changed.notify_all()
