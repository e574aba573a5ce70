"""Which step of which micro-batch may start next: pure bookkeeping, the same for real and for predicted runs.

Micro-batches of one prompt go through the same steps one behind the other. Each step needs one room, the
processor or the NPU, and a room does one step at a time. Causality asks for one thing: a micro-batch may
attend to a layer once the one before it has stored its keys and values of that layer. Everything else a
step touches belongs to its own micro-batch, so every order this allows gives the bits of the serial one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

__all__ = ["Order", "Room", "StepFacts"]


class Room(StrEnum):
    """Where a step runs."""

    CPU = "cpu"
    NPU = "npu"


@dataclass(frozen=True, slots=True)
class StepFacts:
    """What the order must know of a step: the last layer it attends to and the last it stores, -1 for none."""

    room: Room
    attends: int = -1
    remembers: int = -1


class Order:
    """Progress of micro-batches, at most ``in_flight`` of them begun and not finished.

    The oldest micro-batch that can use a free room gets it: it is the one all others wait for.
    """

    def __init__(self, batches: Sequence[Sequence[StepFacts]], in_flight: int) -> None:
        if in_flight < 1:
            raise ValueError(f"{in_flight} micro-batches in flight; at least 1")
        if not all(batches):
            raise ValueError("a micro-batch without steps")
        self._batches = batches
        self._in_flight = in_flight
        self._done = [0] * len(batches)
        self._remembered = [-1] * len(batches)
        self._running: dict[int, Room] = {}
        self._first = 0
        self._end = len(batches)

    @property
    def finished(self) -> int:
        """How many micro-batches are through, counted from the first."""
        return self._first

    @property
    def complete(self) -> bool:
        """Nothing is left to start and nothing runs."""
        return self._first == self._end and not self._running

    def is_through(self, batch: int) -> bool:
        return self._done[batch] == len(self._batches[batch])

    def begin_no_more(self) -> None:
        """Micro-batches that have not begun are dropped; those under way go on to their end."""
        self._end = next(
            (b for b in range(self._first, self._end) if not self._done[b] and b not in self._running),
            self._end,
        )

    def next_for(self, room: Room) -> tuple[int, int] | None:
        """(micro-batch, step) that may start in ``room`` now; None where there is none or the room is taken."""
        if room in self._running.values():
            return None
        for batch in range(self._first, min(self._end, self._first + self._in_flight)):
            step = self._done[batch]
            if batch in self._running or self.is_through(batch):
                continue
            facts = self._batches[batch][step]
            if facts.room is room and (not batch or self._remembered[batch - 1] >= facts.attends):
                return batch, step
        return None

    def start(self, batch: int) -> None:
        """The micro-batch's next step has started."""
        self._running[batch] = self._batches[batch][self._done[batch]].room

    def finish(self, batch: int) -> None:
        """The step that ran is done."""
        del self._running[batch]
        stored = self._batches[batch][self._done[batch]].remembers
        self._remembered[batch] = max(self._remembered[batch], stored)
        self._done[batch] += 1
        while self._first < self._end and self.is_through(self._first):
            self._first += 1
