"""``ork board watch``: a stream of samples."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from orkbench_tui.cli import output
from orkbench_tui.cli.board_readings import BoardHost, TargetName, readings
from orkbench_tui.errors import ExitCode, UsageError
from orkbench_tui.settings import Settings

if TYPE_CHECKING:
    from orkbench_tui.ops.telemetry.sample import Sample

__all__ = [
    "Count",
    "Interval",
    "Json",
    "checked_interval",
    "register",
    "warnings",
]

Json = Annotated[bool, typer.Option("--json", help="JSON: one document, or one object a line for streams.")]
Interval = Annotated[float | None, typer.Option("--interval", help="Seconds between samples, 0.1 to 3600.")]
Count = Annotated[int, typer.Option("--count", min=0, help="Samples to take; 0 goes on until Ctrl-C.")]


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
    host: BoardHost = None,
    target: TargetName = None,
) -> None:
    """One line a sample."""
    from orkbench_tui.ops.telemetry.report import watch_head, watch_line, watch_source
    from orkbench_tui.ops.telemetry.sample_stream import watch_document

    if kernel_log and not json:
        raise UsageError("--kernel-log needs --json", do="`ork board log --follow` prints the log")
    pause_s = checked_interval(interval)
    desk = None
    if alerts or until_alert or alert_command is not None:
        from orkbench_tui.cli.board_alerts import AlertDesk

        desk = AlertDesk(Settings.load(), alert_command)
    with readings(host, target, pause_s, count, with_rates=True) as samples:
        for reading in samples:
            number, sample = reading.number, reading.sample
            events = desk.take(sample) if desk is not None else []
            if number < 0:
                continue
            if json:
                records = reading.records if kernel_log else []
                document = {"seq": number, **watch_document(sample, records)}
                if desk is not None:
                    document["alerts"] = desk.document(events)
                output.emit_json(
                    "board.watch", document, source=sample.source, warnings=warnings(sample), line=True
                )
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
