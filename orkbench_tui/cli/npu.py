"""``ork npu``: the NPU itself, without a model."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orkbench_tui.cli import diagnostics, npu_domains, npu_op, npu_regcmd, npu_tables, output
from orkbench_tui.errors import ExitCode, UsageError
from orkbench_tui.settings import Settings

if TYPE_CHECKING:
    from orkbench_tui.driver.npu import Npu

app = typer.Typer(help="Look at the NPU and run matmuls on it.", no_args_is_help=True, rich_markup_mode=None, add_completion=False)
app.add_typer(npu_regcmd.app, name="regcmd")

Json = Annotated[bool, typer.Option("--json", help="One JSON document.")]
TargetOption = Annotated[str | None, typer.Option("--target", help="auto, board or sim.")]


app.command("guards")(npu_tables.guards)
app.command("modes")(npu_tables.modes)
app.command("domains")(npu_domains.domains)
app.command("op")(npu_op.op)


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


def _granular(name: str, value: int, granule: int, low: int, high: int) -> None:
    if value % granule or not low <= value <= high:
        raise UsageError(f"{name} = {value}", why=f"allowed: {low} to {high}, a multiple of {granule}")


@app.command()
def matmul(
    m: Annotated[int, typer.Argument(help="Rows.")],
    k: Annotated[int, typer.Argument(help="Contraction length, a multiple of 32.")],
    n: Annotated[int, typer.Argument(help="Columns, a multiple of 32.")],
    seed: Annotated[int, typer.Option(help="Seed of the random operands.")] = 0,
    core: Annotated[int | None, typer.Option(help="One core instead of a stream over all.")] = None,
    json: Json = False,
    target: TargetOption = None,
) -> None:
    """Run one int8 matmul on random operands and compare every element with the exact result."""
    from orkbench_tui.ops.checks import exact_matmul
    from orkbench_tui.target import open_target

    _granular("M", m, 1, 1, 65536)
    _granular("K", k, 32, 32, 65536)
    _granular("N", n, 32, 32, 262144)
    if core is not None and core not in range(3):
        raise UsageError(f"--core {core}", why="allowed: 0 to 2")
    with open_target(Settings.load(target=target)) as board:
        if board.notice:
            diagnostics.note(board.notice)
        npu = board.open_npu()
        result = exact_matmul(npu, m, k, n, seed=seed, core=core)
    _warn(npu)
    data: dict[str, Any] = {
        **dataclasses.asdict(result),
        "time_label": "predicted" if board.label == "sim" else "measured",
    }
    if json:
        output.emit_json("npu.matmul", data, source=board.label)
    else:
        verdict = "exact" if result.wrong == 0 else f"{result.wrong} of {m * n} elements wrong"
        output.emit(
            f"{m}x{k} by {k}x{n}: {verdict}; {result.tasks} tasks in {result.submits} submits, "
            f"{result.hw_ns / 1e6:.3f} ms on the NPU ({data['time_label']})"
        )
    if result.wrong:
        raise typer.Exit(ExitCode.UNHEALTHY)
