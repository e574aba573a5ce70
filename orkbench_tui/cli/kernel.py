"""``ork kernel``: the board's kernels: what there is, install one for a trial, keep it or go back."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from orkbench_tui.cli import kernel_patches, output
from orkbench_tui.cli.consent import Consent, JsonOption, TargetOption, with_consent
from orkbench_tui.cli.kernel_leak import leak
from orkbench_tui.errors import RefusedError, UnhealthyError

app = typer.Typer(
    help="Kernels of the board: status, install for a trial, keep, go back.",
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,
)

app.add_typer(kernel_patches.app, name="patches")
app.command("leak")(leak)

_Files = Annotated[
    list[Path], typer.Argument(metavar="DIR|DEB...", help="Folder of a built kernel, or its packages.")
]


@app.callback()
def _group() -> None:
    """Kernels of the board: status, install for a trial, keep, go back."""


@app.command()
def status(json: JsonOption = False, target: TargetOption = None) -> None:
    """The running kernel, those installed, what each contains, and which boots next."""
    from orkbench_tui.cli.guarded import guarded
    from orkbench_tui.ops.kernel.status import kernel_status, status_document, status_lines

    with guarded(target) as (_, board):
        found = kernel_status(board)
    if json:
        output.emit_json("kernel.status", status_document(found), source=board.source)
        return
    for line in status_lines(found):
        output.emit(line)


@app.command()
def plan(files: _Files, json: JsonOption = False, target: TargetOption = None) -> None:
    """Check a kernel against this board and print what installing it would do; exit code 7 when it is refused."""
    refusals = _deploy(files, Consent(True, False, "", "", json, target))
    if refusals:
        raise RefusedError(f"{' '.join(map(str, files))} cannot be installed here", why=refusals[0])


@app.command()
@with_consent
def deploy(
    consent: Consent,
    files: _Files,
) -> None:
    """Install a kernel beside the others and boot it once on trial; the one before stays."""
    _deploy(files, consent)
    if not consent.dry_run and not consent.json:
        output.emit("reboot to try it: `ork board reboot`; then `ork kernel mark-good` keeps it")


def _deploy(files: list[Path], consent: Consent) -> list[str]:
    """Why a dry run says no, each in a line."""
    from orkbench_tui.cli.guarded import carry_out, leftovers_removed
    from orkbench_tui.ops.kernel.artefacts import opened
    from orkbench_tui.ops.kernel.deploy import DEPLOY

    leftovers_removed()
    with opened(files) as folder:
        words = {"from": str(folder), "given": " ".join(map(str, files))}
        planned = carry_out(DEPLOY, words, consent)
    return [f"{check.what}: {check.evidence}" for check in planned.refusals]


@app.command()
@with_consent
def rollback(
    consent: Consent,
    stock: Annotated[bool, typer.Option("--stock", help="To the first kernel ever seen here.")] = False,
) -> None:
    """Boot the kernel before again. Does nothing where it is what boots already."""
    from orkbench_tui.cli.guarded import carry_out
    from orkbench_tui.ops.kernel.going_back import ROLLBACK

    words = {"to": "stock" if stock else "previous"}
    carry_out(ROLLBACK, words, consent)


@app.command("mark-good")
@with_consent
def mark_good(consent: Consent) -> None:
    """Check the kernel on trial and keep it."""
    from orkbench_tui.cli.guarded import carry_out
    from orkbench_tui.ops.kernel.going_back import MARK_GOOD

    carry_out(MARK_GOOD, {}, consent)


@app.command()
def check(json: JsonOption = False, target: TargetOption = None) -> None:
    """The checks after the first boot of a kernel on trial; exit code 6 when one fails. Changes nothing."""
    from orkbench_tui.cli.guarded import guarded
    from orkbench_tui.ops.kernel import state
    from orkbench_tui.ops.kernel.facts import kernel_facts
    from orkbench_tui.ops.kernel.health import post_boot_checks

    with guarded(target) as (opened, board):
        facts = kernel_facts(board)
        trial = state.read(facts.disk, state.TRIAL)
        if trial is not None:
            opened.hold_npu()
        checks = post_boot_checks(board, facts, trial, matmuls=True) if trial is not None else ()
    if json:
        rows = [{"state": c.state, "what": c.what, "evidence": c.evidence} for c in checks]
        release = trial.get("release") if trial is not None else None
        output.emit_json("kernel.check", {"on_trial": release, "checks": rows}, source=board.source)
    elif trial is None:
        output.emit("no kernel is on trial")
    for found in () if json else checks:
        output.emit(f"{found.state:<4} {found.what}" + (f": {found.evidence}" if found.evidence else ""))
    failed = [found for found in checks if found.state == "fail"]
    if failed:
        raise UnhealthyError(
            "the kernel on trial is not as good as the one before",
            why=f"{failed[0].what}: {failed[0].evidence}",
            do="go back with `ork kernel rollback`",
        )
