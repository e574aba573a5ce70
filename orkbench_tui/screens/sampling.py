"""The sampling thread: takes samples at the interval, reconnects when the board goes away, and only posts."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from orkbench_tui.errors import OrkError
from orkbench_tui.ops.files import BoardFiles
from orkbench_tui.ops.telemetry.collector import Collector
from orkbench_tui.ops.telemetry.sample import Sample

__all__ = ["BoardLost", "Sampler", "Taken"]

_FIRST_PAUSE_S = 0.25


@dataclass(frozen=True, slots=True)
class Taken:
    sample: Sample


@dataclass(frozen=True, slots=True)
class BoardLost:
    """``reason`` is one line for the screen."""

    reason: str


class Sampler:
    """Runs ``run`` on a thread of its own until ``stop``. ``deliver`` is called from that thread."""

    def __init__(
        self,
        connect: Callable[[], BoardFiles],
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
        files: BoardFiles | None = None
        collector: Collector | None = None
        taken = 0
        while not self._stopping:
            began = time.monotonic()
            try:
                if files is None or collector is None:
                    files = self._connect()
                    collector, taken = Collector(files, self._occupancy_dir), 0
                self._deliver(Taken(collector.sample()))
                taken += 1
            except Exception as error:  # noqa: BLE001 - a thread that died would leave an old picture standing
                if files is not None:
                    _close(files)
                files = collector = None
                self._deliver(BoardLost(_reason(error)))
            # Rates need two samples, so the second comes soon.
            pause_s = min(self.interval_s, _FIRST_PAUSE_S) if taken == 1 else self.interval_s
            self._wake.wait(max(0.05, pause_s - (time.monotonic() - began)))
            if not self._stopping:
                self._wake.clear()
        if files is not None:
            _close(files)


def _reason(error: Exception) -> str:
    if isinstance(error, OrkError):
        return error.line()
    if isinstance(error, OSError | EOFError):
        return f"the board does not answer: {error}"
    return f"sampling failed ({type(error).__name__}: {error}); this is a defect"


def _close(files: BoardFiles) -> None:
    try:
        files.close()
    except (OrkError, OSError):
        return
