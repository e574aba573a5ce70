"""``ork board``: one sample, the classified kernel log; more in modules of their own."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from orkbench_tui.cli import (
    board_diagnose,
    board_export,
    board_operations,
    board_record,
    board_watch,
    output,
)
from orkbench_tui.cli.board_readings import BoardHost, TargetName, open_board, require_one_board
from orkbench_tui.cli.board_watch import Json, warnings
from orkbench_tui.cli.input import LOG_BYTES, standard_bytes
from orkbench_tui.errors import DeniedError, InvalidFileError, NoDeviceError, UsageError
from orkbench_tui.user_files import open_regular, read_bounded

if TYPE_CHECKING:
    from orkbench_tui.ops.kernel_log.classify import Classified
    from orkbench_tui.ops.telemetry.sample import Sample
    from orkbench_tui.target import Target

app = typer.Typer(
    help="Watch and check the board.", no_args_is_help=True, rich_markup_mode=None, add_completion=False
)

board_diagnose.register(app)
board_watch.register(app)
board_record.register(app)
board_export.register(app)

_RATE_PAUSE_S = 0.2
_JUDGED_BYTES = 64 << 10


@app.callback()
def _group() -> None:
    """Watch and check the board."""


def _here(target: str | None) -> tuple[Sample, list[str]]:
    """A sample, and the operations on this board that were interrupted."""
    from orkbench_tui import locations
    from orkbench_tui.ops.guard.unfinished import unfinished_lines
    from orkbench_tui.ops.telemetry.collector import Collector
    from orkbench_tui.ops.telemetry.settled import settled
    from orkbench_tui.target import occupancy_dir

    with open_board(target) as board:
        collector = Collector(board.files, occupancy_dir())
        collector.sample()
        time.sleep(_RATE_PAUSE_S)
        sample = settled(collector.sample, _RATE_PAUSE_S)
        return sample, unfinished_lines(locations.state_dir(), board.label, board.operations_lock)


def _there(host: str) -> Sample:
    from orkbench_tui.ops.remote.fleet import Fleet
    from orkbench_tui.ops.telemetry.settled import settled
    from orkbench_tui.settings import Settings

    with Fleet([host], Settings.load(), _RATE_PAUSE_S) as fleet:
        return settled(fleet.feed(host).sample, 0.0)


@app.command()
def status(
    json: Json = False,
    host: BoardHost = None,
    target: TargetName = None,
) -> None:
    """What the live screen shows, once."""
    from orkbench_tui.ops.telemetry.report import status_lines
    from orkbench_tui.ops.telemetry.sample_json import sample_document

    require_one_board(host, target)
    sample, unfinished = _here(target) if host is None else (_there(host), [])
    if json:
        told = warnings(sample) + [{"id": "operation.interrupted", "msg": text} for text in unfinished]
        output.emit_json("board.status", sample_document(sample), source=sample.source, warnings=told)
        return
    for text in status_lines(sample, output.columns(), unfinished):
        output.emit(text)


@app.command()
def log(
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on with new lines until Ctrl-C.")
    ] = False,
    file: Annotated[
        Path | None,
        typer.Option(
            "--file", help="A saved log: dmesg in any form, journalctl -o json; - is standard input."
        ),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Also lines that are not about the NPU.")] = False,
    json: Json = False,
    target: TargetName = None,
) -> None:
    """The kernel log, classified: what each line means and what to do."""
    from orkbench_tui.ops.kernel_log.classify import classify_all

    if file is not None:
        if follow:
            raise UsageError("--follow and --file exclude each other", do="leave one of them out")
        from orkbench_tui.ops.kernel_log.renderings import parse_log

        _print_log(classify_all(parse_log(_read(file))), everything, json, "replay")
        return
    from orkbench_tui.ops.kernel_log.records import parse_kmsg
    from orkbench_tui.ops.telemetry.wording import source_in_words

    with open_board(target) as board:
        _require_log(board)
        sequence = -1
        if not json and board.files.label == "sim":
            output.emit(f"source: {source_in_words(board.files.label)}, which writes this log")
        while True:
            try:
                blobs = board.files.kernel_log(sequence)
            except OSError as error:
                raise NoDeviceError("the board does not answer", why=error.strerror or str(error)) from error
            records = [record for record in parse_kmsg(blobs) if (record.sequence or 0) > sequence]
            sequence = max((r.sequence or 0 for r in records), default=sequence)
            _print_log(classify_all(records), everything, json, board.files.label, stream=follow)
            if not follow:
                return
            time.sleep(0.5)


def _require_log(board: Target) -> None:
    """
    Raises:
        DeniedError: the kernel log may not be read by this user.
        NoDeviceError: the board has none.
    """
    from orkbench_tui.ops.files import Access

    reading = board.files.read("/dev/kmsg")
    if reading.access is Access.DENIED:
        raise DeniedError(
            "the kernel log may not be read",
            why=reading.errno_name,
            do="use sudo, or give a saved log with --file",
        )
    if not reading.ok:
        raise NoDeviceError(
            "no kernel log here", why=f"/dev/kmsg {reading.errno_name}", do="give a saved log with --file"
        )


def _read(file: Path) -> bytes:
    do = "cut it, or take the last lines with tail"
    if str(file) == "-":
        data = standard_bytes(LOG_BYTES, do=do)
    else:
        with open_regular(file, "saved kernel log", do="name a saved kernel log") as stream:
            data = read_bounded(stream, LOG_BYTES, str(file), do=do)
    head = data[:_JUDGED_BYTES].decode("utf-8", "replace")
    # A log that broke off may hold some; a log of nothing else is none.
    if sum(c in "\0\ufffd" for c in head) > len(head) // 4:
        raise InvalidFileError(
            f"{file} is no text",
            why="a quarter of it are bytes no log has",
            do="unpack it first if it is packed",
        )
    return data


def _print_log(
    items: list[Classified], everything: bool, json: bool, source: str, *, stream: bool = False
) -> None:
    from orkbench_tui.ops.kernel_log.counting import count
    from orkbench_tui.ops.kernel_log.report import item_document, log_document, log_lines

    shown = [item for item in items if everything or item.rule is not None]
    if json and stream:
        for item in shown:
            output.emit_json("board.log", item_document(item), source=source, line=True)
    elif json:
        output.emit_json("board.log", log_document(shown, count(items)), source=source)
    else:
        for text in log_lines(shown, None if stream else count(items)):
            output.emit(text)


board_operations.register(app)
