"""``ork npu``: the NPU itself, without a model."""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orkbench_tui.cli import (
    diagnostics,
    npu_domains,
    npu_failures,
    npu_op,
    npu_probe,
    npu_regcmd,
    npu_tables,
    npu_timing,
    output,
)
from orkbench_tui.driver.timing.labels import JOB_TIME
from orkbench_tui.errors import ExitCode, UsageError
from orkbench_tui.plural import counted
from orkbench_tui.settings import Settings

if TYPE_CHECKING:
    from orkbench_tui.driver.npu import Npu

if TYPE_CHECKING:
    from orkbench_tui.ops.checks import MatmulCheck

app = typer.Typer(
    help="Look at the NPU and run matmuls on it.",
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,
)
app.add_typer(npu_regcmd.app, name="regcmd")

Json = Annotated[bool, typer.Option("--json", help="One JSON document.")]
TargetOption = Annotated[str | None, typer.Option("--target", help="auto, board or sim.")]


app.command("guards")(npu_tables.guards)
app.command("modes")(npu_tables.modes)
app.command("domains")(npu_domains.domains)
app.command("failures")(npu_failures.failures)
app.command("op")(npu_op.op)
app.command("timing")(npu_timing.timing)
app.command("probe")(npu_probe.probe)


@app.callback()
def _group() -> None:
    """Look at the NPU and run matmuls on it."""


@app.command()
def info(json: Json = False, target: TargetOption = None) -> None:
    """What the driver says of itself and of the chip."""
    from orkbench_tui.target import open_target

    with open_target(Settings.load(target=target)) as board:
        if board.notice:
            diagnostics.note(board.notice)
        npu = board.open_npu(exclusive=False)
        data = dataclasses.asdict(npu.info())
    _warn(npu)
    if json:
        output.emit_json("npu.info", data, source=board.label)
        return
    for key, value in data.items():
        output.emit(f"{key:<16} {'unknown' if value is None else value}")


def _warn(npu: Npu) -> None:
    for line in npu.notices:
        diagnostics.warn(line)


def _shape(text: str) -> tuple[int, int, int]:
    parts = text.split(",")
    # int() would take digits of every script and underscores. Over-long numbers are judged with the other limits.
    if len(parts) != 3 or not all(re.fullmatch(r"-?[0-9]{1,40}", part) for part in parts):
        raise UsageError(
            f"--shape {text!r}", why="M,K,N are three whole numbers", do="for example 128,576,1536"
        )
    m, k, n = map(int, parts)
    return m, k, n


@app.command()
def matmul(
    shape: Annotated[str, typer.Option("--shape", help="M,K,N: rows, contraction length, columns.")],
    dtype: Annotated[
        str, typer.Option(help="int8, int8->int8, int8->int16, fp16, fp16->fp16, int16 or int4.")
    ] = "int8",
    path: Annotated[
        str, typer.Option(help="blocking, chain, stream, doorbell, compiled or sliced.")
    ] = "stream",
    check: Annotated[bool, typer.Option("--check/--no-check", help="Compare every element.")] = True,
    core: Annotated[int | None, typer.Option(help="One core instead of all.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the random operands.")] = 0,
    json: Json = False,
    target: TargetOption = None,
) -> None:
    """Run one matmul on random operands and compare every element with what it must be.

    Integers must be exact; fp16 must stay within the bound of its fp32 additions in any order.
    """
    from orkbench_tui.ops.checks import exact_matmul
    from orkbench_tui.target import open_target

    m, k, n = _shape(shape)
    if seed < 0:
        raise UsageError(f"--seed {seed}", why="allowed: 0 and above")
    with open_target(Settings.load(target=target)) as board:
        if board.notice:
            diagnostics.note(board.notice)
        npu = board.open_npu()
        if core is not None and core not in range(npu.soc.cores):
            raise UsageError(f"--core {core}", why=f"allowed: 0 to {npu.soc.cores - 1}")
        result = exact_matmul(npu, m, k, n, seed=seed, core=core, dtype=dtype, path=path, check=check)
        for line in npu.notices:
            diagnostics.note(line)
    data: dict[str, Any] = {
        **dataclasses.asdict(result),
        "time_label": JOB_TIME[board.label],
    }
    if json:
        output.emit_json("npu.matmul", data, source=board.label)
    else:
        output.emit(_matmul_line(result, data["time_label"]))
        if result.failure_file:
            diagnostics.note(f"`ork npu failures {result.failure_file}` shows what was submitted")
    if result.wrong:
        raise typer.Exit(ExitCode.UNHEALTHY)


def _matmul_line(result: MatmulCheck, time_label: str) -> str:
    if result.wrong is None:
        verdict = "not checked"
    elif result.wrong:
        verdict = f"{result.wrong} of {result.m * result.n} elements wrong"
    elif result.bound is None or result.worst is None:
        verdict = "exact"
    else:
        verdict = f"within the bound of {result.bound} (worst at {result.worst:.1%} of it)"
    time = (
        "time on the NPU unknown"
        if result.hw_ns is None
        else f"{result.hw_ns / 1e6:.3f} ms on the NPU ({time_label})"
    )
    return (
        f"{result.m}x{result.k} by {result.k}x{result.n}, {result.dtype}, {result.path}: {verdict}; "
        f"{counted(result.tasks, 'task')} in {counted(result.submits, 'submit')}, {time}"
    )
