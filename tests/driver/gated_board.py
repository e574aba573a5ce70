"""Boards and devices with a hand on them: programs that wait for leave, submits that vanish."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from orkbench_tui.driver import uapi
from orkbench_tui.sim.chip.core import Core
from orkbench_tui.sim.inprocess import InProcessBoard, InProcessDevice


class Gate:
    """Lets a number of programs through; the next one waits."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._leave = 0
        self.started = 0
        self.open = False

    def pass_one(self) -> None:
        with self._condition:
            self.started += 1
            self._condition.notify_all()
            self._condition.wait_for(lambda: self.open or self._leave > 0, 20)
            self._leave -= 1

    def let(self, count: int) -> None:
        with self._condition:
            self._leave += count
            self._condition.notify_all()

    def let_all(self) -> None:
        with self._condition:
            self.open = True
            self._condition.notify_all()

    def wait_started(self, count: int) -> None:
        """Until ``count`` programs were started (fetched), the last of them perhaps waiting."""
        with self._condition:
            assert self._condition.wait_for(lambda: self.started >= count, 20)


def gate_programs(monkeypatch: Any, gate: Gate) -> None:
    """Every program of every core asks the gate after it was fetched and before it computes."""
    decode = Core._decode

    def gated(self: Core, program: Any) -> Any:
        operation = decode(self, program)
        gate.pass_one()
        return operation

    monkeypatch.setattr(Core, "_decode", gated)


class FaultyDevice:
    """A device that hands calls on, except where ``fault(request, argument, nth)`` says to swallow them.

    ``nth`` counts the calls of that request from 0. A swallowed submit returns 0 and nothing runs, as a
    job that was never dispatched. ``submits`` holds the structures of all submits.
    """

    def __init__(self, board: InProcessBoard, fault: Callable[[int, bytearray, int], bool]) -> None:
        self._device: InProcessDevice = board.device()
        self._fault = fault
        self.counts: dict[int, int] = {}
        self.submits: list[uapi.Submit] = []

    @property
    def name(self) -> str:
        return self._device.name

    def ioctl(self, request: int, argument: bytearray) -> int:
        nth = self.counts.get(request, 0)
        self.counts[request] = nth + 1
        if request == uapi.RKNPU_SUBMIT:
            self.submits.append(uapi.Submit.from_buffer_copy(argument))
        if self._fault(request, argument, nth):
            return 0
        return self._device.ioctl(request, argument)

    def mmap(self, offset: int, length: int) -> Any:
        return self._device.mmap(offset, length)

    def close(self) -> None:
        self._device.close()


def is_nonblock(request: int, argument: bytearray) -> bool:
    return request == uapi.RKNPU_SUBMIT and bool(
        uapi.Submit.from_buffer_copy(argument).flags & uapi.JobFlag.NONBLOCK
    )
