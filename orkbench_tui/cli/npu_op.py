"""``ork npu op``: one element-wise operation on the NPU."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orkbench_tui.cli import diagnostics, output
from orkbench_tui.driver.timing.labels import JOB_TIME
from orkbench_tui.errors import ExitCode, UsageError
from orkbench_tui.plural import counted
from orkbench_tui.settings import Settings

if TYPE_CHECKING:
    from orkbench_tui.ops.element_wise_checks import OpCheck

__all__ = ["op"]

_MAX_ROWS, _MAX_CHANNELS = 65536, 65536


def _shape(text: str) -> tuple[int, int]:
    parts = text.split(",")
    if len(parts) != 2 or not all(part.strip().isdecimal() for part in parts):
        raise UsageError(f"--shape {text}", why="expected M,N, such as 7,64")
    rows, channels = (int(part) for part in parts)
    for name, value, high in (("M", rows, _MAX_ROWS), ("N", channels, _MAX_CHANNELS)):
        if not 1 <= value <= high:
            raise UsageError(f"--shape {text}", why=f"{name} = {value}, allowed: 1 to {high}")
    return rows, channels


def _list(json: bool) -> None:
    from orkbench_tui.ops.element_wise_checks import available

    rows = available()
    if json:
        output.emit_json("npu.ops", [dataclasses.asdict(row) for row in rows], source="table")
        return
    output.emit(f"{'operation':<16} {'type':<6} {'kind':<13} evidence")
    for row in rows:
        output.emit(f"{row.op:<16} {row.dtype:<6} {row.kind:<13} {row.evidence}")


def _verdict(result: OpCheck) -> str:
    if result.wrong is None:
        return "not compared"
    if result.wrong:
        total = result.rows * result.channels
        return f"{result.wrong} of {total} elements wrong, the worst by {result.worst:.3g}"
    if not result.allowed:
        return "exact"
    return f"within {result.worst:.3g}, allowed {result.allowed:.3g}"


def op(
    name: Annotated[str, typer.Argument(help="Operation; see --list.")] = "",
    dtype: Annotated[str, typer.Option(help="int8, int16, fp16, int32 or fp32.")] = "int8",
    shape: Annotated[str, typer.Option(help="Rows and channels, as M,N.")] = "7,64",
    check: Annotated[bool, typer.Option("--check", help="Compare every element with numpy.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the random operands.")] = 0,
    show: Annotated[
        bool, typer.Option("--list", help="List the operations and who has seen them run.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="One JSON document.")] = False,
    target: Annotated[str | None, typer.Option("--target", help="auto, board or sim.")] = None,
) -> None:
    """Run one element-wise operation or table function on random operands."""
    if show:
        _list(json)
        return
    if not name:
        raise UsageError("no operation named", do="see `ork npu op --list`")
    rows, channels = _shape(shape)
    from orkbench_tui.ops.element_wise_checks import checked_op, run_op
    from orkbench_tui.target import open_target

    checked_op(name, dtype, channels)
    with open_target(Settings.load(target=target)) as board:
        if board.notice:
            diagnostics.note(board.notice)
        result = run_op(board.open_npu(), name, dtype, rows, channels, seed=seed, check=check)
    time_label = JOB_TIME[board.label]
    data: dict[str, Any] = {**dataclasses.asdict(result), "time_label": time_label}
    if json:
        output.emit_json("npu.op", data, source=board.label)
    else:
        output.emit(
            f"{name} {dtype} {rows}x{channels}: {_verdict(result)}; {counted(result.tasks, 'task')} in "
            f"{counted(result.submits, 'submit')}, {result.hw_ns / 1e6:.3f} ms on the NPU ({time_label})"
        )
    if result.wrong:
        raise typer.Exit(ExitCode.UNHEALTHY)
