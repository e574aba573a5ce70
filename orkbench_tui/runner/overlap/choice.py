"""Whether prompts overlap: as set, or whichever of the two ways was measured faster here.

Both ways give the same bits, so the choice may follow the clock. It matters where the two rooms share
processors, as on the simulated board: what is hidden there costs as much as it saves.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from orkbench_tui.runner.overlap.micro_batches import LEAST_TOKENS
from orkbench_tui.runner.overlap.rooms import RoomTimes

__all__ = ["OverlapChoice", "OverlapReport", "OverlapSetting"]

OverlapSetting = Literal["auto", "on", "off"]

_TELLING_TOKENS = 128
"""Shorter prompts are mostly set-up, and say little of the rate."""

_GAIN_NEEDED = 1.03


@dataclass(frozen=True, slots=True)
class OverlapReport:
    """What was measured, in tokens per second of this machine's clock (None: not yet), and the room times."""

    setting: OverlapSetting
    serial_rate: float | None
    overlapped_rate: float | None
    overlapped_prompts: int
    times: RoomTimes


class OverlapChoice:
    """One per engine. ``possible`` is off where no step runs on an NPU."""

    def __init__(self, setting: OverlapSetting, *, possible: bool) -> None:
        self._setting = setting
        self._possible = possible
        self._rates: dict[bool, float] = {}
        self._overlapped = 0
        self._times = RoomTimes()

    def wanted(self, tokens: int) -> bool:
        """Whether the next prompt of so many tokens is to overlap."""
        if not self._possible or tokens < LEAST_TOKENS or self._setting == "off":
            return False
        if self._setting == "on":
            return True
        if tokens < _TELLING_TOKENS:
            return self._faster(otherwise=False)
        if False not in self._rates:
            return False
        return self._faster(otherwise=True)

    def _faster(self, *, otherwise: bool) -> bool:
        if len(self._rates) < 2:
            return otherwise
        return self._rates[True] > _GAIN_NEEDED * self._rates[False]

    def note(self, overlapped: bool, tokens: int, times: RoomTimes) -> None:
        """A prompt ran this way."""
        self._times += times
        self._overlapped += overlapped
        if tokens >= _TELLING_TOKENS and times.wall_s > 0:
            self._rates[overlapped] = max(self._rates.get(overlapped, 0.0), tokens / times.wall_s)

    @property
    def report(self) -> OverlapReport:
        return OverlapReport(
            self._setting, self._rates.get(False), self._rates.get(True), self._overlapped, self._times
        )
