"""Where samples come from: a board's files, a recording, another board over ssh. Views do not tell them apart."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol, runtime_checkable

from orkbench_tui.ops.files import BoardFiles
from orkbench_tui.ops.telemetry.collector import Collector
from orkbench_tui.ops.telemetry.sample import Sample

__all__ = ["BoardFeed", "Feed", "PastFeed"]


@runtime_checkable
class Feed(Protocol):
    """One board's samples."""

    def sample(self) -> Sample:
        """The newest.

        Raises:
            OrkError, OSError: the board does not answer now.
        """
        ...

    def close(self) -> None: ...


@runtime_checkable
class PastFeed(Feed, Protocol):
    """A feed that knows what came before: charts are drawn from that, not from what was seen."""

    def past(self) -> tuple[Sample, ...]:
        """Samples up to the one given last, oldest first."""
        ...


class BoardFeed:
    """A board whose files are open here."""

    def __init__(self, files: BoardFiles, occupancy_dir: Path) -> None:
        self._files = files
        self._collector = Collector(files, occupancy_dir)

    def sample(self) -> Sample:
        return self._collector.sample()

    def close(self) -> None:
        self._files.close()
