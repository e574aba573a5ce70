"""The sampling thread: takes samples at the interval, reconnects when the board goes away, and only posts."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from orkbench_tui.errors import OrkError
from orkbench_tui.ops.files import BoardFiles
from orkbench_tui.ops.telemetry.feed import BoardFeed, Feed, PastFeed
from orkbench_tui.ops.telemetry.sample import Sample

__all__ = ["BoardLost", "Sampler", "Taken"]

_FIRST_PAUSE_S = 0.25


@dataclass(frozen=True, slots=True)
class Taken:
    """``past`` are the samples up to this one where the feed knows them, None where what was taken is all there is."""

    sample: Sample
    past: tuple[Sample, ...] | None = None


@dataclass(frozen=True, slots=True)
class BoardLost:
    """``reason`` is one line for the screen."""

    reason: str


class Sampler:
    """Runs ``run`` on a thread of its own until ``stop``. ``deliver`` is called from that thread.

    ``connect`` gives a board's files, or a feed of its samples.
    """

    def __init__(
        self,
        connect: Callable[[], BoardFiles | Feed],
        occupancy_dir: Path,
        interval_s: float,
        deliver: Callable[[Taken | BoardLost], object],
    ) -> None:
        self._connect = connect
        self._occupancy_dir = occupancy_dir
        self._deliver = deliver
        self._wake = threading.Event()
        self._stopping = False
        self.interval_s = interval_s

    def stop(self) -> None:
        self._stopping = True
        self._wake.set()

    def sample_now(self) -> None:
        self._wake.set()

    def run(self) -> None:
        feed: Feed | None = None
        taken = 0
        while not self._stopping:
            began = time.monotonic()
            try:
                if feed is None:
                    opened = self._connect()
                    feed = opened if isinstance(opened, Feed) else BoardFeed(opened, self._occupancy_dir)
                    taken = 0
                sample = feed.sample()
                self._deliver(Taken(sample, feed.past() if isinstance(feed, PastFeed) else None))
                taken += 1
            except Exception as error:  # noqa: BLE001 - a thread that died would leave an old picture standing
                if feed is not None:
                    _close(feed)
                feed = None
                self._deliver(BoardLost(_reason(error)))
            # Rates need two samples, so the second comes soon.
            pause_s = min(self.interval_s, _FIRST_PAUSE_S) if taken == 1 else self.interval_s
            self._wake.wait(max(0.05, pause_s - (time.monotonic() - began)))
            if not self._stopping:
                self._wake.clear()
        if feed is not None:
            _close(feed)


def _reason(error: Exception) -> str:
    if isinstance(error, OrkError):
        return error.line()
    if isinstance(error, OSError | EOFError):
        return f"the board does not answer: {error}"
    return f"sampling failed ({type(error).__name__}: {error}); this is a defect"


def _close(feed: Feed) -> None:
    try:
        feed.close()
    except (OrkError, OSError):
        return
