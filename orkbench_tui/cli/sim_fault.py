"""``ork sim fault``: things that go wrong, set and cleared on the running simulated board."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from orkbench_tui.cli import output

app = typer.Typer(
    help="Provoke faults on the simulated board, and end them.",
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,
)

_Json = Annotated[bool, typer.Option("--json", help="One JSON document.")]


@app.callback()
def _group() -> None:
    """Provoke faults on the simulated board, and end them."""


def _line(row: dict[str, Any]) -> str:
    state = f"set ({row['value']})" if row["value"] else "set" if row["set"] else "-"
    does = row["does"]
    if row["why_not"]:
        state, does = "not here", row["why_not"]
    return f"{row['name']:<22} {state:<12} {does}"


def _ending(row: dict[str, Any]) -> str:
    ways = [*row["ended_by"], *([f"ork sim fault clear {row['name']}"] if row["clearable"] else [])]
    return f"ended by: {'; '.join(ways)}"


@app.command("list")
def list_(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="One fault, with all it changes.")
    ] = None,
    json: _Json = False,
) -> None:
    """Every fault: whether it is set and what it does, or why the board cannot have it; with NAME also what shows and ends it."""
    from orkbench_tui import target
    from orkbench_tui.errors import UsageError

    rows = target.simulator_control().list_faults()
    if name is not None:
        rows = [row for row in rows if row["name"] == name]
        if not rows:
            raise UsageError(f"no fault {name!r}", do="`ork sim fault list` names them")
    if json:
        output.emit_json("sim.faults", {"faults": rows}, source="sim")
        return
    for row in rows:
        output.emit(_line(row))
        if name is not None and not row["why_not"]:
            if row["values"]:
                output.emit(f"variants: {', '.join(row['values'])} (set as {name}=VARIANT)")
            for shown in row["shows"]:
                output.emit(f"shows: {shown}")
            output.emit(_ending(row))


@app.command("set")
def set_(
    name: Annotated[str, typer.Argument(metavar="NAME[=VARIANT]", help="The fault.")], json: _Json = False
) -> None:
    """Set a fault on the running board; exit code 7 where the board has no part for it."""
    from orkbench_tui import target

    row = target.simulator_control().set_fault(name)
    if json:
        output.emit_json("sim.fault", row, source="sim")
        return
    output.emit(f"{row['name']}{'=' + row['value'] if row['value'] else ''}: {row['does']}")
    output.emit(_ending(row))


@app.command()
def clear(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The fault.")], json: _Json = False
) -> None:
    """Undo a fault, where something would undo it on a board."""
    from orkbench_tui import target

    row = target.simulator_control().clear_fault(name)
    if json:
        output.emit_json("sim.fault", row, source="sim")
    else:
        output.emit(f"{row['name']}: not set")
