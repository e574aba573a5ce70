"""``ork board record`` and ``replay``: samples to a file, and back."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from orkbench_tui.cli import diagnostics, output
from orkbench_tui.cli.board_readings import BoardHost, TargetName, readings
from orkbench_tui.cli.board_watch import Count, Interval, Json, checked_interval
from orkbench_tui.errors import InvalidFileError, UsageError

if TYPE_CHECKING:
    from orkbench_tui.ops.telemetry.recording import Recording
    from orkbench_tui.ops.telemetry.sample import Sample

__all__ = ["register"]

_NAMED = 5


def record(
    file: Annotated[Path, typer.Argument(help="A new file; a name that ends in .gz is packed.")],
    interval: Interval = None,
    count: Count = 0,
    host: BoardHost = None,
    target: TargetName = None,
) -> None:
    """Write samples and the kernel log to FILE until Ctrl-C; a kill loses at most the last line."""
    from orkbench_tui.ops.telemetry.recording import RecordingWriter
    from orkbench_tui.version import VERSION

    pause_s = checked_interval(interval)
    taken = 0
    with readings(host, target, pause_s, count, with_rates=False) as samples:
        # A board that is not reached leaves no empty file behind.
        first = next(samples)
        writer = RecordingWriter(
            file, program=f"ork {VERSION}", started_unix_s=time.time(), interval_s=pause_s
        )
        try:
            diagnostics.note(f"recording to {file}; Ctrl-C ends it")
            for reading in chain([first], samples):
                writer.write(reading.sample, reading.records)
                taken += 1
        except KeyboardInterrupt:
            # The usual end of a recording, so no failure.
            pass
        finally:
            writer.close()
    output.emit(f"{taken} samples in {file}; look at them with `ork-tui --replay {file}`")


def replay(
    file: Annotated[Path, typer.Argument(help="A recording, or a saved `ork board watch --json`.")],
    first: Annotated[
        int, typer.Option("--from", min=1, help="The sample to begin with, counted from 1.")
    ] = 1,
    count: Annotated[int, typer.Option("--count", min=0, help="How many; 0 for all that follow.")] = 0,
    json: Json = False,
    csv: Annotated[bool, typer.Option("--csv", help="A table: one row a sample, units in the head.")] = False,
) -> None:
    """The samples of a recording, one line each. `ork-tui --replay FILE` steps through it."""
    from orkbench_tui.ops.telemetry.recording import Recording
    from orkbench_tui.ops.telemetry.report import watch_head, watch_line
    from orkbench_tui.ops.telemetry.table import csv_rows

    if json and csv:
        raise UsageError("--json and --csv exclude each other", do="leave one of them out")
    with Recording(file) as recording:
        if first > len(recording):
            raise UsageError(f"--from {first}", why=f"{file} holds {len(recording)} samples")
        end = min(len(recording), first - 1 + count) if count else len(recording)
        unreadable = list(recording.damaged)
        readable = _readable(recording, range(first - 1, end), unreadable)
        if csv:
            for text in csv_rows(sample for _, sample in readable):
                output.emit(text)
        elif json:
            for index, _ in readable:
                value = recording.object(index)
                document = {"seq": index, **value["data"]}
                output.emit_json(
                    "board.watch", document, source="replay", warnings=value.get("warnings"), line=True
                )
        else:
            for number, (_, sample) in enumerate(readable):
                if number % 20 == 0:
                    output.emit(watch_head(sample))
                output.emit(watch_line(sample))
        if recording.broken_off:
            diagnostics.note(f"{file} breaks off in its last line, which is left out")
    if unreadable:
        lines = ", ".join(str(number) for number in sorted(unreadable)[:_NAMED])
        more = "" if len(unreadable) <= _NAMED else f" and {len(unreadable) - _NAMED} more"
        raise InvalidFileError(f"{file} is damaged", why=f"left out: line {lines}{more}")


def _readable(recording: Recording, places: range, unreadable: list[int]) -> Iterator[tuple[int, Sample]]:
    for index in places:
        try:
            yield index, recording.sample(index)
        except InvalidFileError as error:
            unreadable.append(recording.line_number(index))
            diagnostics.note(error.line())


def register(app: typer.Typer) -> None:
    app.command()(record)
    app.command()(replay)
