"""What ``ork board watch`` and ``record`` go through: samples of the board here, or of another one over ssh."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count as counting
from typing import TYPE_CHECKING, Annotated

import typer

from orkbench_tui.cli import diagnostics
from orkbench_tui.errors import UsageError
from orkbench_tui.settings import Settings

if TYPE_CHECKING:
    from orkbench_tui.ops.remote.stream import RemoteStream
    from orkbench_tui.ops.telemetry.sample import Sample
    from orkbench_tui.target import Target

__all__ = ["BoardHost", "Reading", "TargetName", "open_board", "readings", "require_one_board"]

TargetName = Annotated[str | None, typer.Option("--target", help="auto, board or sim.")]
BoardHost = Annotated[
    str | None, typer.Option("--board", help="Another board, as ssh knows it; ork must be there.")
]


@dataclass(frozen=True, slots=True)
class Reading:
    """``number`` counts from 0, -1 is a sample without rates that nobody is shown; ``records`` are the kernel log's
    that it was the first to see, raw."""

    number: int
    sample: Sample
    records: list[bytes]


def open_board(target: str | None) -> Target:
    from orkbench_tui.target import open_target

    opened = open_target(Settings.load(target=target))
    if opened.notice:
        diagnostics.note(opened.notice)
    return opened


def require_one_board(host: str | None, target: str | None) -> None:
    """
    Raises:
        UsageError: a board here and another one are both named.
    """
    if host is not None and target is not None:
        raise UsageError("--board and --target exclude each other", do="set remote_target for other boards")


@contextmanager
def readings(
    host: str | None, target: str | None, interval_s: float, count: int, *, with_rates: bool
) -> Iterator[Iterator[Reading]]:
    """``count`` samples every ``interval_s``, 0 for no end. ``with_rates``: begin with one that has none yet.

    Raises:
        UsageError: both boards are named, or ``host`` is none.
        UnreachableError: the other board has never answered; the iterator raises it.
    """
    require_one_board(host, target)
    if host is None:
        with open_board(target) as board:
            yield _here(board, interval_s, count, with_rates)
        return
    from orkbench_tui.ops.remote.stream import RemoteStream

    with RemoteStream(host, Settings.load(), interval_s, diagnostics.note) as stream:
        yield _there(stream, count)


def _here(board: Target, interval_s: float, count: int, with_rates: bool) -> Iterator[Reading]:
    from orkbench_tui.ops.telemetry.collector import Collector
    from orkbench_tui.ops.telemetry.pacing import RATE_PAUSE_S, ticks
    from orkbench_tui.target import occupancy_dir

    collector = Collector(board.files, occupancy_dir())
    records: list[bytes] = []
    if with_rates:
        first = collector.sample()
        # It has read the log up to here; the first sample that is shown hands that on.
        records = collector.new_records
        yield Reading(-1, first, [])
        time.sleep(min(interval_s, RATE_PAUSE_S))
    for number in ticks(interval_s, count):
        sample = collector.sample()
        yield Reading(number, sample, [*records, *collector.new_records])
        records = []


def _there(stream: RemoteStream, count: int) -> Iterator[Reading]:
    """The other side takes the sample without rates itself."""
    for number in range(count) if count else counting():
        sample, records = stream.next()
        yield Reading(number, sample, records)
