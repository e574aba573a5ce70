"""A recording as a feed that can be stepped, jumped in and held."""

from __future__ import annotations

import dataclasses
import threading
from bisect import bisect_left

from orkbench_tui.errors import InvalidFileError
from orkbench_tui.ops.telemetry.recording import Recording
from orkbench_tui.ops.telemetry.sample import Sample

__all__ = ["ReplayFeed"]

_PAST = 400


class ReplayFeed:
    """Goes on by one sample each time it is asked while it plays. Safe to steer from another thread."""

    def __init__(self, recording: Recording, *, playing: bool = True) -> None:
        self._recording = recording
        self._lock = threading.Lock()
        self._index = 0
        self._playing = playing
        # A sample that was steered to, or the first, is shown before the next follows.
        self._arrived = True

    @property
    def index(self) -> int:
        return self._index

    @property
    def playing(self) -> bool:
        return self._playing

    def sample(self) -> Sample:
        """The next while it plays, else the same again. Lines that are damaged are passed over.

        Raises:
            InvalidFileError: no line can be read.
        """
        with self._lock:
            last = len(self._recording) - 1
            if self._playing and not self._arrived:
                self._index = min(self._index + 1, last)
            self._arrived = False
            sample = self._readable()
            if self._index == last:
                self._playing = False
            return self._marked(sample)

    def _readable(self) -> Sample:
        start, last = self._index, len(self._recording) - 1
        for index in (*range(start, last + 1), *range(start - 1, -1, -1)):
            try:
                sample = self._recording.sample(index)
            except InvalidFileError:
                continue
            self._index = index
            return sample
        return self._recording.sample(start)

    def _marked(self, sample: Sample) -> Sample:
        state = "" if self._playing else " held"
        place = f"{self._index + 1} of {len(self._recording)}{state}"
        return dataclasses.replace(sample, source_detail=place)

    def past(self) -> tuple[Sample, ...]:
        with self._lock:
            last = self._index
            found = []
            for index in range(max(0, last - _PAST + 1), last + 1):
                try:
                    found.append(self._recording.sample(index))
                except InvalidFileError:
                    continue
            return tuple(found)

    def pause(self) -> None:
        """Hold, or go on; at the end go on from the start."""
        with self._lock:
            self._playing = not self._playing
            if self._playing and self._index == len(self._recording) - 1:
                self._index = 0
                self._arrived = True

    def step(self, many: int) -> None:
        """``many`` samples on, or back when negative, and hold there."""
        with self._lock:
            self._playing = False
            self._go(self._index + many)

    def jump(self, seconds: float) -> None:
        """To the sample taken so much later, or earlier; playing goes on."""
        with self._lock:
            try:
                wanted_s = self._recording.sample(self._index).mono_s + seconds
            except InvalidFileError:
                self._go(self._index + (1 if seconds > 0 else -1))
                return
            index = bisect_left(range(len(self._recording)), wanted_s, key=self._time_at)
            if index == self._index:
                index += 1 if seconds > 0 else -1
            self._go(index)

    def _time_at(self, index: int) -> float:
        """The time of the sample there, or of the nearest before it that can be read."""
        for nearest in range(index, -1, -1):
            try:
                data = self._recording.object(nearest)["data"]
            except InvalidFileError:
                continue
            # The steady clock: a wall clock that was set would send a jump astray.
            value = data.get("mono_s", data.get("unix_s"))
            if isinstance(value, int | float):
                return float(value)
        return float("-inf")

    def to_start(self) -> None:
        with self._lock:
            self._go(0)

    def to_end(self) -> None:
        with self._lock:
            self._go(len(self._recording) - 1)

    def _go(self, index: int) -> None:
        self._index = min(max(index, 0), len(self._recording) - 1)
        self._arrived = True

    def close(self) -> None:
        self._recording.close()
