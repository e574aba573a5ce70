"""``ork board watch``: a stream of samples."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from orkbench_tui.cli import output
from orkbench_tui.errors import ExitCode, UsageError
from orkbench_tui.settings import Settings

if TYPE_CHECKING:
    from orkbench_tui.ops.telemetry.sample import Sample
    from orkbench_tui.target import Target

__all__ = [
    "Count",
    "Interval",
    "Json",
    "TargetName",
    "checked_interval",
    "open_board",
    "register",
    "warnings",
]

Json = Annotated[bool, typer.Option("--json", help="JSON: one document, or one object a line for streams.")]
TargetName = Annotated[str | None, typer.Option("--target", help="auto, board or sim.")]
Interval = Annotated[float | None, typer.Option("--interval", help="Seconds between samples, 0.1 to 3600.")]
Count = Annotated[int, typer.Option("--count", min=0, help="Samples to take; 0 goes on until Ctrl-C.")]


def open_board(target: str | None) -> Target:
    from orkbench_tui.cli import diagnostics
    from orkbench_tui.target import open_target

    opened = open_target(Settings.load(target=target))
    if opened.notice:
        diagnostics.note(opened.notice)
    return opened


def checked_interval(interval: float | None) -> float:
    """Seconds; the setting's where none are given."""
    if interval is None:
        return Settings.load().refresh_s
    # NaN passes Typer's own limits.
    if not 0.1 <= interval <= 3600.0:
        raise UsageError(f"--interval {interval}", why="allowed: 0.1 to 3600 seconds")
    return interval


def warnings(sample: Sample) -> list[dict[str, str]]:
    return [{"id": "npu.load", "msg": text} for text in sample.warnings]


def watch(
    interval: Interval = None,
    count: Count = 0,
    json: Json = False,
    kernel_log: Annotated[
        bool, typer.Option("--kernel-log", help="With --json: also new records of the kernel log, raw.")
    ] = False,
    alerts: Annotated[
        bool, typer.Option("--alerts", help="Also tell when something is wrong: a line, the bell, a command.")
    ] = False,
    until_alert: Annotated[
        bool,
        typer.Option("--until-alert", help="End with exit code 10 at the first alert; implies --alerts."),
    ] = False,
    alert_command: Annotated[
        str | None,
        typer.Option(
            "--alert-command", help="Run for each alert, without a shell; facts in ORKBENCH_ALERT_…"
        ),
    ] = None,
    target: TargetName = None,
) -> None:
    """One line a sample."""
    from orkbench_tui.ops.telemetry.collector import Collector
    from orkbench_tui.ops.telemetry.pacing import RATE_PAUSE_S, ticks
    from orkbench_tui.ops.telemetry.report import watch_head, watch_line, watch_source
    from orkbench_tui.ops.telemetry.sample_stream import watch_document
    from orkbench_tui.target import occupancy_dir

    if kernel_log and not json:
        raise UsageError("--kernel-log needs --json", do="`ork board log --follow` prints the log")
    pause_s = checked_interval(interval)
    desk = None
    if alerts or until_alert or alert_command is not None:
        from orkbench_tui.cli.board_alerts import AlertDesk

        desk = AlertDesk(Settings.load(), alert_command)
    with open_board(target) as board:
        collector = Collector(board.files, occupancy_dir())
        first = collector.sample()
        # The sample before the first one shown has read the log up to here.
        records = collector.new_records if kernel_log else []
        time.sleep(min(pause_s, RATE_PAUSE_S))
        if desk is not None:
            desk.take(first)
        for number in ticks(pause_s, count):
            sample = collector.sample()
            events = desk.take(sample) if desk is not None else []
            if json:
                if kernel_log:
                    records = [*records, *collector.new_records]
                document = {"seq": number, **watch_document(sample, records)}
                if desk is not None:
                    document["alerts"] = desk.document(events)
                output.emit_json(
                    "board.watch", document, source=sample.source, warnings=warnings(sample), line=True
                )
                records = []
            else:
                if number % 20 == 0:
                    if source := watch_source(sample):
                        output.emit(source)
                    output.emit(watch_head(sample))
                output.emit(watch_line(sample))
                if desk is not None:
                    desk.tell(events)
            if desk is not None and until_alert and desk.began:
                break
        if desk is not None:
            desk.close()
    if until_alert and desk is not None and desk.began:
        raise typer.Exit(ExitCode.ALERT)


def register(app: typer.Typer) -> None:
    app.command()(watch)
