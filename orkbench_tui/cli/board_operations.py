"""``ork board drop-caches|governors|irq-affinity|drain|reset|rebind|reboot|watchdog|setup|sram|stuck|recover|resume|journal``."""

from __future__ import annotations

from typing import Annotated

import typer

from orkbench_tui.cli import diagnostics, output
from orkbench_tui.cli.board_power import power_cycle
from orkbench_tui.cli.consent import Consent, JsonOption, TargetOption, with_consent
from orkbench_tui.errors import InconsistentError, UnhealthyError

__all__ = ["register"]


def _run(name: str, words: dict[str, str], consent: Consent) -> None:
    from orkbench_tui.cli.guarded import carry_out
    from orkbench_tui.ops.operations.registry import OPERATIONS

    carry_out(OPERATIONS[name], words, consent)


@with_consent
def drop_caches(
    consent: Consent,
    level: Annotated[int, typer.Option("--level", min=1, max=3, help="1 pages, 2 inodes, 3 both.")] = 1,
) -> None:
    """Give the page cache back to the free memory, after a sync."""
    _run("drop-caches", {"level": str(level)}, consent)


@with_consent
def governors(
    consent: Consent,
    mode: Annotated[str, typer.Argument(help="performance, or restore.")] = "performance",
) -> None:
    """Clocks of NPU, DDR and CPU to their highest, and back."""
    _run("governors", {"mode": mode}, consent)


@with_consent
def irq_affinity(
    consent: Consent,
    mode: Annotated[str, typer.Argument(help="little, or restore.")] = "little",
) -> None:
    """The NPU's interrupts onto little cores, and back."""
    _run("irq-affinity", {"mode": mode}, consent)


@with_consent
def drain(
    consent: Consent,
    wait: Annotated[bool, typer.Option("--wait", help="Only wait; ask no program to end.")] = False,
) -> None:
    """End the programs that hold the NPU with SIGTERM, and wait until they have."""
    _run("drain", {"wait": "only"} if wait else {}, consent)


@with_consent
def reset(
    consent: Consent,
) -> None:
    """Soft-reset the NPU and check that every core computes."""
    _run("reset", {}, consent)


@with_consent
def reboot(
    consent: Consent,
    anyway: Annotated[bool, typer.Option("--anyway", help="Although what boots next looks broken.")] = False,
) -> None:
    """Boot the board anew, after looking whether it would come up."""
    words = {"anyway": "yes"} if anyway else {}
    _run("reboot", words, consent)


@with_consent
def rebind(
    consent: Consent,
) -> None:
    """Unbind and bind the NPU's driver: the last thing before a reboot, never tested by anybody."""
    _run("rebind", {}, consent)


@with_consent
def watchdog(
    consent: Consent,
    mode: Annotated[str, typer.Argument(help="arm, or disarm.")] = "arm",
    seconds: Annotated[int, typer.Option("--seconds", help="How long it waits, 10 to 60.")] = 30,
) -> None:
    """The hardware watchdog: a board that hangs boots anew by itself."""
    _run("watchdog", {"mode": mode, "seconds": str(seconds)}, consent)


@with_consent
def setup(
    consent: Consent,
    user: Annotated[str, typer.Option("--user", help="Whose; else who runs this.")] = "",
    undo: Annotated[bool, typer.Option("--undo", help="Take it back.")] = False,
) -> None:
    """Let a plain user work with the NPU: groups, device permissions, debugfs."""
    import getpass
    import os

    words = {
        "user": user or os.environ.get("SUDO_USER") or getpass.getuser(),
        "mode": "undo" if undo else "do",
    }
    _run("setup", words, consent)


def sram(json: JsonOption = False, target: TargetOption = None) -> None:
    """Whether the NPU has on-chip memory here, and whether it is given out. Changes nothing."""
    from orkbench_tui.cli.guarded import guarded
    from orkbench_tui.ops.npu_orders import sram_grant
    from orkbench_tui.ops.operations.sram import sram_document, sram_lines, sram_report

    with guarded(target) as (opened, board):
        npu = opened.open_npu()
        info = npu.info()
        grant = sram_grant(npu) if info.sram_bytes else None
        npu.close()
        after = opened.open_npu(exclusive=False)
        info = after.info()
        after.close()
        report = sram_report(board, total=info.sram_bytes, free=info.sram_free_bytes, grant=grant)
    if json:
        output.emit_json("board.sram", sram_document(report), source=board.source)
        return
    for line in sram_lines(report):
        output.emit(line)


def stuck(
    seconds: Annotated[
        float, typer.Option("--for", min=0, max=600, help="Only those that hang for so many seconds.")
    ] = 0.0,
    json: JsonOption = False,
    target: TargetOption = None,
) -> None:
    """Programs that hang in the NPU's driver, and what they wait for. Changes nothing."""
    from orkbench_tui.cli.guarded import guarded
    from orkbench_tui.ops.operations.stuck import hanging_for, stuck_document, stuck_lines

    with guarded(target) as (_, board):
        found = hanging_for(board, seconds)
    if json:
        output.emit_json("board.stuck", stuck_document(found), source=board.source)
        return
    for line in stuck_lines(found):
        output.emit(line)


@with_consent
def recover(
    consent: Consent,
    max_rung: Annotated[int, typer.Option("--max-rung", min=0, max=4, help="The highest rung to climb.")] = 4,
) -> None:
    """Find out whether the NPU is well, and bring it back with the least that helps."""
    from contextlib import closing

    from orkbench_tui.cli.guarded import asker, guarded
    from orkbench_tui.errors import RefusedError
    from orkbench_tui.ops.guard.confirmation import require
    from orkbench_tui.ops.guard.declaration import Plan
    from orkbench_tui.ops.guard.engine import operations_lock
    from orkbench_tui.ops.guard.wording import plan_lines
    from orkbench_tui.ops.operations import recover as ladder

    def agreed(plan: Plan) -> str:
        ask = asker()
        if not consent.json and not consent.confirm and not consent.yes and ask is not None:
            for line in plan_lines(plan):
                output.emit(line)
        try:
            require(plan, yes=consent.yes, confirm=consent.confirm, ask=ask, know=consent.i_know)
        except RefusedError as error:
            return error.line()
        return ""

    with guarded(consent.target) as (opened, board), closing(operations_lock(board)):
        opened.hold_npu()
        transcript = ladder.recover(board, max_rung=max_rung, dry_run=consent.dry_run, consent=agreed)
    if consent.json:
        output.emit_json("board.recover", ladder.recovery_document(transcript), source=board.source)
    else:
        for line in transcript.lines():
            output.emit(line)
    if not transcript.healthy:
        raise UnhealthyError("the NPU is not well", why=transcript.fault, do=f"it needs {transcript.needs}")


def resume(json: JsonOption = False, target: TargetOption = None) -> None:
    """Bring an operation that was interrupted to an end: close it, or take it back."""
    from contextlib import closing

    from orkbench_tui.cli.guarded import guarded, leftovers_removed
    from orkbench_tui.ops.guard import engine
    from orkbench_tui.ops.guard.wording import outcome_document

    leftovers_removed()
    with guarded(target, resuming=True) as (_, board), closing(engine.operations_lock(board)):
        outcomes = engine.resume(board)
    if json:
        output.emit_json("board.resume", [outcome_document(item) for item in outcomes], source=board.source)
    elif not outcomes:
        output.emit("nothing was interrupted")
    else:
        for item in outcomes:
            output.emit(f"{item.operation}: {item.kind}, {item.text}")
    for item in outcomes:
        if item.kind == engine.INCONSISTENT:
            raise InconsistentError(f"{item.operation} cannot be taken back", why=item.text)


def journal(json: JsonOption = False) -> None:
    """What guarded operations did, oldest first."""
    from orkbench_tui import locations
    from orkbench_tui.ops.guard.journal import readable
    from orkbench_tui.ops.guard.wording import run_document, run_line

    runs, wrong = readable(locations.state_dir())
    if json:
        output.emit_json("board.journal", [run_document(run) for run in runs], source="host")
    else:
        for run in runs:
            output.emit(run_line(run))
        if not runs and not wrong:
            output.emit("no operation was run yet")
    for error in wrong[:-1]:
        diagnostics.warn(error.line())
    if wrong:
        raise wrong[-1]


def register(app: typer.Typer) -> None:
    """Add the commands to ``ork board``."""
    for command in (
        drop_caches,
        governors,
        irq_affinity,
        drain,
        reset,
        rebind,
        reboot,
        watchdog,
        setup,
        sram,
        stuck,
        recover,
        resume,
        journal,
        power_cycle,
    ):
        app.command()(command)
