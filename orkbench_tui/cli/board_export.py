"""``ork board export``: metrics for Prometheus."""

from __future__ import annotations

import signal
import time
from pathlib import Path
from typing import Annotated

import typer

from orkbench_tui.cli import diagnostics, output
from orkbench_tui.cli.board_readings import TargetName, open_board
from orkbench_tui.errors import UsageError

__all__ = ["register"]

_LOOPBACK = "127.0.0.1"


def export(
    port: Annotated[
        int | None, typer.Option("--port", min=1, max=65535, help="Answer scrapes at /metrics of this port.")
    ] = None,
    host: Annotated[
        str, typer.Option("--host", help="Address to listen on. Anyone who reaches it can read the metrics.")
    ] = _LOOPBACK,
    textfile: Annotated[
        Path | None, typer.Option("--textfile", help="Replace this .prom file at every interval.")
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="With --textfile: write it once and end.")] = False,
    interval: Annotated[
        float, typer.Option("--interval", min=1.0, max=3600.0, help="Seconds between textfiles.")
    ] = 15.0,
    target: TargetName = None,
) -> None:
    """Metrics in Prometheus' format: over HTTP, in a file, or with neither printed once."""
    from orkbench_tui.ops.export.exposition import Exporter, serve, write_textfile
    from orkbench_tui.ops.telemetry.collector import Collector
    from orkbench_tui.ops.telemetry.pacing import RATE_PAUSE_S, ticks
    from orkbench_tui.target import occupancy_dir

    if port is not None and textfile is not None:
        raise UsageError("--port and --textfile exclude each other", do="run two exporters")
    if once and textfile is None:
        raise UsageError("--once needs --textfile", do="without both the metrics are printed once anyway")
    if textfile is not None and textfile.suffix != ".prom":
        raise UsageError(f"{textfile} does not end in .prom", why="node_exporter reads only such files")
    if not 1.0 <= interval <= 3600.0:
        # NaN passes Typer's own limits.
        raise UsageError(f"--interval {interval}", why="allowed: 1 to 3600 seconds")
    with open_board(target) as board:
        collector = Collector(board.files, occupancy_dir())
        collector.sample()
        time.sleep(RATE_PAUSE_S)
        exporter = Exporter(collector.sample)
        if port is not None:
            stop = serve(exporter, host, port)
            shown = f"[{host}]" if ":" in host else host
            diagnostics.note(f"metrics at http://{shown}:{port}/metrics; Ctrl-C ends it")
            try:
                signal.pause()
            finally:
                stop()
        elif textfile is not None:
            for _ in ticks(interval, 1 if once else 0):
                write_textfile(exporter, textfile)
        else:
            for line in exporter.text().decode().splitlines():
                output.emit(line)


def register(app: typer.Typer) -> None:
    app.command()(export)
