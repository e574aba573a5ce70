"""Samples for screens, the same in every run: frozen clocks, loads that move by formula."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import NoReturn

from orkbench_tui.ops.telemetry.collector import Collector
from orkbench_tui.ops.telemetry.domains import Counters, Domain, Publication
from orkbench_tui.ops.telemetry.sample import Occupancy, Sample
from orkbench_tui.screens.app import OrkApp, Report
from orkbench_tui.screens.glyphs import UNICODE, Glyphs
from orkbench_tui.screens.sampling import Taken
from orkbench_tui.screens.services import Services
from orkbench_tui.screens.view_state import ViewState
from tests.ops.fake_board import FakeBoard, kmsg, sample_text

CHAT = Publication(
    pid=2211,
    command="ork run chat",
    device="/dev/dri/card1",
    source="board",
    started_unix_s=1764459000.0,
    domains=(
        Domain(0, 327155712, 14, 3758096384, 4294967296),
        Domain(1, 3221225472, 3, 1073741824, 4294967296),
    ),
    counters=Counters(submits=12000, tasks=36000, hw_ns=5_000_000),
)


def samples(many: int = 90, *, storm: bool = False, label: str = "board") -> list[Sample]:
    """``many`` samples a second apart; with ``storm`` the log holds four hangs that are minutes old."""
    board = FakeBoard(label=label)
    if storm:
        board.log += kmsg(sample_text("dmesg-reset-storm.txt"), len(board.log))
        board.files["/proc/uptime"] = "700.0 1.0\n"
    ticks: Iterator[float] = (float(n) for n in count())
    taker = Collector(board, Path("/nonexistent"), steady=lambda: next(ticks), wall=lambda: 1764460000.0)
    result = []
    for number in range(many):
        loads = [round(50 + 45 * math.sin(number / 7 + core)) for core in range(3)]
        text = " ".join(f"Core{core}: {load:2d}%," for core, load in enumerate(loads))
        board.files["/sys/kernel/debug/rknpu/load"] = f"NPU load:  {text}\n"
        board.files["/proc/stat"] = "".join(
            f"cpu{cpu} {number * (5 + 12 * cpu)} 0 0 {number * (95 - 12 * cpu)} 0 0 0 0 0 0\n"
            for cpu in range(8)
        )
        result.append(taker.sample())
    return result


def with_chat(sample: Sample) -> Sample:
    import dataclasses

    return dataclasses.replace(sample, occupancy=Occupancy((CHAT,), {CHAT.pid: 61.0}))


def state_of(taken: list[Sample], **changes: object) -> ViewState:
    loads = tuple(
        tuple(sample.npu.cores[core].load_pct for sample in taken) for core in range(len(taken[-1].npu.cores))
    )
    return ViewState(sample=taken[-1], loads=loads, **changes)  # type: ignore[arg-type]


def _never() -> NoReturn:
    """A connection that is not answered: the sampling thread stays silent and tests feed by hand."""
    threading.Event().wait()
    raise AssertionError


def quiet_app(
    *,
    colour: bool = True,
    glyphs: Glyphs = UNICODE,
    theme: str = "dark",
    services: Services | None = None,
) -> OrkApp:
    return OrkApp(
        _never,
        Path("/nonexistent"),
        colour=colour,
        theme=theme,
        glyphs=glyphs,
        services=services,
        process_time=None,
        steady=lambda: 0.0,
    )


def feed(app: OrkApp, taken: list[Sample]) -> None:
    for sample in taken:
        app.on_report(Report(Taken(sample)))
