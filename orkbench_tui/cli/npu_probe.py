"""``ork npu probe``: questions to a board, with the control that gives the answers their worth."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from orkbench_tui.cli import diagnostics, output
from orkbench_tui.errors import ExitCode, UsageError
from orkbench_tui.settings import Settings

if TYPE_CHECKING:
    from orkbench_tui.ops.probes.declaration import Figure, Probe, Result
    from orkbench_tui.target import Target

__all__ = ["probe"]

_ATTESTATION_BYTES = 1 << 20


def probe(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="One probe; --list names them.")
    ] = None,
    listed: Annotated[bool, typer.Option("--list", help="Every probe and its question.")] = False,
    every: Annotated[bool, typer.Option("--all", help="All of them, one after the other.")] = False,
    consent: Annotated[
        bool, typer.Option("--consent", help="Run probes that may disturb a board, on a board of yours.")
    ] = False,
    attest: Annotated[
        Path | None,
        typer.Option(
            "--attest", metavar="FILE", help="Keep the verdicts with the hashes of the driver's files."
        ),
    ] = None,
    attested: Annotated[
        Path | None,
        typer.Option("--attested", metavar="FILE", help="Whether such a file still speaks of this driver."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON document.")] = False,
    target: Annotated[str | None, typer.Option("--target", help="auto, board or sim.")] = None,
) -> None:
    """Ask a board one question. Exit 0 pass, 6 fail, 1 inconclusive; with --all 6 if any failed, else 0."""
    from orkbench_tui.ops.probes.catalogue import PROBES

    if listed:
        _list(list(PROBES.values()), json)
        return
    if attested is not None:
        _attested(attested, json)
        return
    if every == (name is not None):
        raise UsageError("name one probe, or --all", do="`ork npu probe --list` names them")
    if name is not None and name not in PROBES:
        near = difflib.get_close_matches(name, PROBES, n=1)
        raise UsageError(
            f"no probe {name!r}", do=f"did you mean {near[0]}?" if near else "see `ork npu probe --list`"
        )
    chosen = list(PROBES.values()) if name is None else [PROBES[name]]
    results, source = _asked(
        chosen,
        Settings.load(target=target),
        _show if not json else _nothing,
        consent=consent,
        skip_harmful=every,
    )
    if attest is not None:
        _attest(attest, results, source)
    if json:
        output.emit_json("npu.probe", [result.document() for result in results], source=source)
    verdicts = [result.answer.verdict.value for result in results]
    if not json and every:
        counts = ", ".join(f"{verdicts.count(word)} {word}" for word in ("pass", "fail", "inconclusive"))
        output.emit(f"{len(results)} probes: {counts}")
    if "fail" in verdicts:
        raise typer.Exit(ExitCode.UNHEALTHY)
    if not every and "inconclusive" in verdicts:
        raise typer.Exit(ExitCode.FAILED)


def _attest(path: Path, results: Sequence[Result], source: str) -> None:
    """Write the attestation; a file that was there is replaced as a whole."""
    import json as _json
    import platform

    from orkbench_tui.ops.probes.attestation import attestation
    from orkbench_tui.own_files import own_file_error
    from orkbench_tui.version import VERSION

    document = attestation(results, label=source, version=VERSION, kernel=platform.release())
    beside = path.with_name(f"{path.name}.tmp")
    try:
        beside.write_text(_json.dumps(document, indent=1) + "\n", encoding="utf-8")
        beside.replace(path)
    except OSError as error:
        raise own_file_error(error, path, "an attestation") from error
    diagnostics.note(f"verdicts and {len(document['core'])} hashes in {path}")


def _attested(path: Path, json: bool) -> None:
    import json as _json

    from orkbench_tui.ops.probes.attestation import staleness
    from orkbench_tui.user_files import read_text_bounded

    text = read_text_bounded(path, _ATTESTATION_BYTES, "attestation")
    try:
        document = _json.loads(text)
    except (ValueError, RecursionError):
        document = None
    found = staleness(document)
    if json:
        data = {
            "fresh": found.fresh,
            "changed": found.changed,
            "added": found.added,
            "removed": found.removed,
        }
        output.emit_json("npu.probe.attested", data, source="host")
    elif found.fresh:
        output.emit("fresh: no file of the driver has changed since")
    else:
        names = [*found.changed, *found.added, *found.removed]
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        output.emit(f"stale: {', '.join(names[:3])}{more} changed since")
    if not found.fresh:
        raise typer.Exit(ExitCode.FAILED)


def _asked(
    probes: Sequence[Probe],
    settings: Settings,
    told_of: Callable[[Result], None],
    *,
    consent: bool,
    skip_harmful: bool,
) -> tuple[list[Result], str]:
    """Each probe with an NPU of its own: what one leaves must not answer the next."""
    from orkbench_tui.ops.probes.asking import ask, closed_warnings, require_consent
    from orkbench_tui.ops.probes.declaration import Bench
    from orkbench_tui.target import open_target

    results: list[Result] = []
    source, told = "", False
    for chosen in probes:
        with open_target(settings) as board:
            source = board.label
            if board.notice and not told:
                diagnostics.note(board.notice)
                told = True
            if chosen.harm and board.label == "board" and skip_harmful and not consent:
                diagnostics.note(f"{chosen.name} left out without --consent: {chosen.harm}")
                continue
            line = _past(board, consent=consent) if board.label == "board" else ""
            if line and not results:
                diagnostics.warn(line)
            bench = Bench(board.open_npu(), board.label, board.files)
            require_consent(chosen, bench, consent=consent)
            for line in closed_warnings(chosen):
                diagnostics.warn(line)
            result = ask(chosen, bench, consent=consent)
        results.append(result)
        told_of(result)
    return results, source


def _past(board: Target, *, consent: bool) -> str:
    """What of its past a board's NPU may answer with; RefusedError where the kernel log tells of a fault."""
    from orkbench_tui.ops.probes.device_state import require_clean_device, state_of_log

    state, seen = state_of_log(board.files.kernel_log())
    return require_clean_device(state, seen, on_board=True, consent=consent)


def _show(result: Result) -> None:
    output.emit("\n".join(_lines(result)))


def _nothing(result: Result) -> None:
    """With --json everything is one document at the end."""


def _list(probes: Sequence[Probe], json: bool) -> None:
    if json:
        output.emit_json("npu.probe.list", [each.document() for each in probes], source="host")
        return
    for each in probes:
        output.emit(
            f"{each.name:<20} {each.question}" + (" (needs --consent on a board)" if each.harm else "")
        )


def _lines(result: Result) -> list[str]:
    answer = result.answer
    lines = [
        f"{result.probe.name}: {result.probe.question}",
        f"  formula  {result.probe.formula}",
        f"  rule     {result.probe.rule}",
        f"  control  {'ok' if result.control.ok else 'not ok'}: {result.control.seen}",
    ]
    if answer.rows:
        cells = [[_cell(value) for value in row] for row in answer.rows]
        table = [list(answer.columns), *cells]
        widths = [max(len(row[i]) for row in table) for i in range(len(answer.columns))]
        lines += [
            "  " + "  ".join(cell.rjust(w) for cell, w in zip(row, widths, strict=True)) for row in table
        ]
    lines += [f"  {_figure(figure)}" for figure in answer.figures]
    lines.append(f"  {answer.verdict.value}: {answer.why}")
    return lines


def _cell(value: str | float | int | None) -> str:
    if value is None:
        return "unknown"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _figure(figure: Figure) -> str:
    value = "unknown" if figure.value is None else f"{figure.value:.4g} {figure.unit}".rstrip()
    return f"{figure.name}: {value} ({figure.label})"
