"""``ork sim``: the simulated board's process."""

from __future__ import annotations

import dataclasses
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from orkbench_tui.cli import diagnostics, output, sim_fault
from orkbench_tui.errors import ExitCode, UnhealthyError, UsageError
from orkbench_tui.plural import counted

app = typer.Typer(
    help="Start, stop and inspect the simulated board.",
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,
)

app.add_typer(sim_fault.app, name="fault")

_Json = Annotated[bool, typer.Option("--json", help="One JSON document.")]


class Pace(StrEnum):
    """How the simulated NPU spends its predicted time."""

    fast = "fast"
    real = "real"


@app.callback()
def _group() -> None:
    """Start, stop and inspect the simulated board."""


def _facts(status: Any) -> dict[str, Any]:
    facts = dataclasses.asdict(status)
    facts["socket_path"] = str(status.socket_path)
    facts["disk"] = str(status.disk) if status.disk else None
    facts["uptime_s"] = round(status.uptime_s, 3)
    return facts


def _line(status: Any) -> str:
    wedged = f"; WEDGED: {status.wedged}" if status.wedged else ""
    faults = "".join(f"; fault {name}{'=' + value if value else ''}" for name, value in status.faults.items())
    leaks = f"; {status.leaked_mappings} leaked mappings" if status.leaked_mappings else ""
    return (
        f"simulated board: pid {status.pid}, {status.board}, up {status.uptime_s:.0f} s, pace {status.pace}, "
        f"{status.clients} clients, {status.jobs_done} jobs done, {status.jobs_failed} failed{leaks}{wedged}{faults}"
    )


def _show(status: Any, json: bool) -> None:
    if json:
        output.emit_json("sim.status", {"running": True, **_facts(status)}, source="sim")
    else:
        output.emit(_line(status))


def _show_started(status: Any, json: bool) -> None:
    """After a restart: UnhealthyError where the board did not come up from it."""
    _show(status, json)
    if status.wedged:
        raise UnhealthyError(
            "the simulated board did not come up",
            why=status.wedged,
            do="clear the fault (`ork sim fault list`), then `ork sim power-cycle`; or `ork sim stop` and "
            "`ork sim start --fresh`",
        )


@app.command()
def start(
    pace: Annotated[
        Pace | None, typer.Option(help="fast: do not wait; real: jobs take their predicted time.")
    ] = None,
    sram: Annotated[bool, typer.Option("--sram", help="A board whose NPU owns the system SRAM.")] = False,
    patch_import_domain: Annotated[
        bool,
        typer.Option("--patch-import-domain", help="A kernel with the patch that stops the import leak."),
    ] = False,
    board: Annotated[
        str, typer.Option("--board", help="rock-5b, orange-pi-5-plus, rk3576, rk3566 or rocket.")
    ] = "",
    fresh: Annotated[bool, typer.Option("--fresh", help="With its boot disk as it was delivered.")] = False,
    json: _Json = False,
) -> None:
    """Start the simulated board, or show the one that runs."""
    from orkbench_tui import target
    from orkbench_tui.settings import Settings

    settings = Settings.load(sim_pace=pace.value if pace else None)
    simulator = target.simulator()
    boards = target.simulator_control().BOARDS
    if board and board not in boards:
        raise UsageError(f"no board {board!r}", do=f"use one of {', '.join(boards)}")
    variant = simulator.BoardVariant(
        sram=sram, patch_import_domain=patch_import_domain, board=board or boards[0]
    )
    before = simulator.status()
    status = simulator.start(
        pace=settings.sim_pace, idle_s=settings.sim_idle_s, variant=variant, fresh_disk=fresh
    )
    if fresh and before is not None:
        diagnostics.warn("the board that runs keeps its disk; `ork sim stop` ends it")
    other = bool(board) and board != status.board
    if other or sram > status.sram or patch_import_domain > status.patch_import_domain:
        diagnostics.warn("the board that runs was started with other options; `ork sim stop` ends it")
    if pace is not None and status.pace != pace.value:
        status = simulator.set_pace(pace.value)
    _show(status, json)


@app.command()
def stop(json: _Json = False) -> None:
    """Stop the simulated board; programs that use it lose their device."""
    from orkbench_tui import target

    stopped = target.simulator().stop()
    if json:
        output.emit_json("sim.stop", {"stopped": stopped}, source="sim")
    else:
        output.emit("simulated board: stopped" if stopped else "no simulated board runs")


@app.command("exec", context_settings={"allow_interspersed_args": False, "ignore_unknown_options": True})
def exec_(
    program: Annotated[str, typer.Argument(metavar="PROGRAM", help="A program that uses /dev/dri.")],
    arguments: Annotated[
        list[str] | None, typer.Argument(metavar="[ARGS]...", help="Passed on as they are.")
    ] = None,
    record: Annotated[
        Path | None,
        typer.Option("--record", metavar="FILE", help="Keep its ioctls, tasks, words and buffers."),
    ] = None,
) -> None:
    """Run a native program that drives the NPU through the vendor's ioctls on the simulated board.

    Its exit code, input and output are its own. Options of `ork sim exec` go before PROGRAM.
    """
    from orkbench_tui import target
    from orkbench_tui.settings import Settings

    settings = Settings.load()
    status = target.simulator().start(pace=settings.sim_pace, idle_s=settings.sim_idle_s)
    target.simulator_control().replace_this_process(program, arguments or [], status, record)


@app.command()
def replay(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="What `ork sim exec --record` wrote.")],
    json: _Json = False,
) -> None:
    """Run a record again on a fresh board and compare every result; exit code 9 when one differs."""
    from orkbench_tui import target
    from orkbench_tui.errors import InvalidFileError
    from orkbench_tui.user_files import open_regular

    # A pipe in the place of a record would be waited for without an end.
    open_regular(file, "record", do="name a file that `ork sim exec --record` wrote").close()
    try:
        found = target.simulator_control().replay(file)
    except OSError as error:
        raise InvalidFileError(str(file), why=error.strerror or str(error)) from error
    if json:
        data = {"same": not found.differences, **dataclasses.asdict(found)}
        output.emit_json("sim.replay", data, source="sim")
    else:
        output.emit(
            f"{counted(found.submits, 'submit')}, {counted(found.calls, 'call')}, {counted(found.results, 'result')} compared, "
            f"{len(found.differences)} differences, {found.predicted_ns / 1000:.1f} us of NPU time (predicted)"
        )
        for line in found.differences:
            output.emit(line)
    if found.differences:
        raise typer.Exit(ExitCode.INCONSISTENT)


@app.command()
def kernel(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A new folder.")],
    patches: Annotated[
        str,
        typer.Option("--patches", metavar="NAMES", help="Patches it has, by comma: import-domain, sram, ..."),
    ] = "import-domain",
    json: _Json = False,
) -> None:
    """Make a kernel to rehearse `ork kernel deploy` with; only the simulated board can start it."""
    from orkbench_tui import target

    names = tuple(name for name in patches.split(",") if name)
    release = target.simulator_control().make_rehearsal(folder, names)
    if json:
        data = {"folder": str(folder), "release": release, "patches": list(names)}
        output.emit_json("sim.kernel", data, source="sim")
    else:
        output.emit(f"{release} in {folder}, with {', '.join(names) or 'no patch'}")


@app.command()
def reboot(json: _Json = False) -> None:
    """Boot the simulated board anew: leaks are gone, the boot id is new; programs lose their device."""
    from orkbench_tui import target

    _show_started(target.simulator_control().reboot(), json)


@app.command("power-cycle")
def power_cycle(json: _Json = False) -> None:
    """Cut the simulated board's power and give it again: what a reboot does not cure."""
    from orkbench_tui import target

    _show_started(target.simulator_control().power_cycle(), json)


@app.command()
def status(json: _Json = False) -> None:
    """Show the simulated board that runs; exit code 3 when none does."""
    from orkbench_tui import target

    found = target.simulator().status()
    if found is not None:
        _show(found, json)
        return
    if json:
        output.emit_json("sim.status", {"running": False}, source="sim")
    else:
        output.emit("no simulated board runs")
    raise typer.Exit(ExitCode.NO_DEVICE)
