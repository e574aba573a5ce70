"""The board's side of a benchmark: preflight, state before and after, load while it runs; all as data."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from orkbench_tui.cli.board_diagnose import board_preflight
from orkbench_tui.errors import RefusedError
from orkbench_tui.runner.bench.conditions import BoardState
from orkbench_tui.runner.bench.utilization import Reading
from orkbench_tui.settings import Settings

if TYPE_CHECKING:
    from orkbench_tui.ops.files import BoardFiles
    from orkbench_tui.ops.telemetry.collector import Collector

__all__ = ["BoardWatch", "board_watch", "refuse_unfit"]

_STAT = "/proc/stat"
_LOADS = ("/sys/kernel/debug/rknpu/load", "/proc/rknpu/load")


@dataclass(slots=True)
class BoardWatch:
    """Reads one board while a benchmark runs on it. ``failed`` and ``unknown`` are the preflight's rows."""

    files: BoardFiles
    collector: Collector
    failed: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    preflight: bool = False
    _label: str = field(default="", init=False)

    def judge(self) -> None:
        """Run the preflight; takes about two seconds."""
        from orkbench_tui.ops.doctor.checks import run_checks

        outcomes = run_checks(board_preflight(self.files))
        self.failed = tuple(o.check.id for o in outcomes if o.finding.status == "fail")
        self.unknown = tuple(o.check.id for o in outcomes if o.finding.status == "unknown")
        self.preflight = True

    def state(self) -> BoardState:
        """The board at this moment."""
        sample = self.collector.sample()
        clocks = {"npu": sample.npu.clock, **({"ddr": sample.ddr} if sample.ddr else {})}
        for group in sample.cpu:
            for number, clock in enumerate(group.clocks):
                clocks[f"cpu {group.name}{f' {number}' if len(group.clocks) > 1 else ''}"] = clock
        return BoardState(
            label=sample.source,
            failed=self.failed,
            unknown=self.unknown,
            preflight=self.preflight,
            governors={name: clock.governor for name, clock in clocks.items() if clock.governor},
            clocks={name: clock.hz for name, clock in clocks.items() if clock.hz is not None},
            temperatures={item.zone: item.celsius for item in sample.temperatures},
            kernel=sample.identity.kernel,
            board=sample.identity.model,
            resets=None if sample.resets is None else sample.resets.value,
        )

    def reading(self) -> Reading:
        """Load of every core: two files, cheap enough for many times a second."""
        from orkbench_tui.ops.telemetry.cpu import parse_proc_stat
        from orkbench_tui.ops.telemetry.npu_load import parse_npu_load

        stat, *loads = self.files.read_many([_STAT, *_LOADS])
        parsed = next((found for r in loads if r.ok and (found := parse_npu_load(r.text()))), None)
        cpus = parse_proc_stat(stat.text()).cpus if stat.ok else {}
        return Reading(
            at_s=time.perf_counter(),
            npu=tuple(core.pct for core in parsed) if parsed else (),
            cpu={number: (ticks.busy, ticks.idle) for number, ticks in cpus.items()},
        )


@contextmanager
def board_watch(settings: Settings) -> Iterator[BoardWatch]:
    """A watch over the board the settings choose, of its own connection."""
    from orkbench_tui.ops.telemetry.collector import Collector
    from orkbench_tui.target import occupancy_dir, open_target

    with open_target(settings) as target:
        yield BoardWatch(target.files, Collector(target.files, occupancy_dir()))


def refuse_unfit(watch: BoardWatch, *, anyway: bool) -> None:
    """Raises:
    RefusedError: the preflight failed and ``anyway`` is off.
    """
    if watch.failed and not anyway:
        raise RefusedError(
            "this board is unfit to be timed",
            why=f"preflight: {', '.join(watch.failed)}",
            do="see `ork board doctor`, or time it with --unfit, which marks every row not comparable",
        )
