"""``ork npu timing``: the timing model against the published figures, its constants, and what is closed."""

from __future__ import annotations

import dataclasses
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from orkbench_tui.cli import output
from orkbench_tui.cli.npu_what_ifs import show_what_ifs
from orkbench_tui.errors import UsageError

if TYPE_CHECKING:
    from orkbench_tui.driver.timing.records import Record
    from orkbench_tui.driver.timing.reproduction import Comparison

__all__ = ["comparison_lines", "timing"]

_WIDTH = 100
_ROADMAP_BYTES = 4 << 20
_LINE_CHARACTERS = 200
_HEAD = "{:<33} {:>10} {:>10} {:<9} {:>8}  "


def timing(
    constants: Annotated[
        bool, typer.Option("--constants", help="The model's constants and sources.")
    ] = False,
    closed: Annotated[bool, typer.Option("--closed", help="Hypotheses that were tested and closed.")] = False,
    records: Annotated[
        bool, typer.Option("--records", help="Further published figures, and what follows from them.")
    ] = False,
    history: Annotated[
        str | None,
        typer.Option("--history", metavar="WORD", help="Findings by date that name WORD; all for '.'."),
    ] = None,
    shape: Annotated[
        str, typer.Option("--shape", metavar="M,K,N", help="What the model says of one int8 matmul.")
    ] = "",
    roadmap: Annotated[
        Path | None,
        typer.Option(
            "--roadmap", metavar="FILE", help="Items of a roadmap page in plain text, each with its state."
        ),
    ] = None,
    what_if: Annotated[
        str,
        typer.Option(
            "--what-if",
            metavar="NAME",
            help="What nobody has built, predicted: core-split, verification, precision or asymmetric; all for '.'.",
        ),
    ] = "",
    given: Annotated[
        list[str] | None,
        typer.Option(
            "--given", metavar="NAME=NUMBER", help="A figure of your own for --what-if; repeatable."
        ),
    ] = None,
    whole: Annotated[
        bool, typer.Option("--whole", help="Published figures the model does not predict as well.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="One JSON document.")] = False,
) -> None:
    """The timing model against every published figure: predicted, published, deviation and why."""
    from orkbench_tui.driver.timing.constants import CONSTANTS
    from orkbench_tui.driver.timing.hypotheses import CLOSED
    from orkbench_tui.driver.timing.published.timeline import entries_about
    from orkbench_tui.driver.timing.records import RECORDS
    from orkbench_tui.driver.timing.reproduction import comparisons
    from orkbench_tui.driver.timing.stack_records import STACK_RECORDS

    all_records = (*RECORDS, *STACK_RECORDS)

    if shape:
        _one_shape(shape, json)
        return
    if roadmap is not None:
        _roadmap(roadmap, json)
        return
    if given and not what_if:
        raise UsageError("--given without --what-if", do="name the question: --what-if core-split")
    if what_if:
        show_what_ifs(what_if, given or [], json)
        return
    if json:
        data = {
            "comparisons": [comparison_data(row) for row in comparisons()],
            "constants": [dataclasses.asdict(row) for row in CONSTANTS],
            "closed": [dataclasses.asdict(row) for row in CLOSED],
            "records": [record_data(row) for row in all_records],
            "history": [dataclasses.asdict(entry) for entry in entries_about("")],
        }
        output.emit_json("npu.timing", data, source="host")
        return
    if constants:
        for row in CONSTANTS:
            head = f"{row.name:<18} {row.value:>12g} {row.unit:<16} {row.standing:<9}  "
            output.emit(_wrapped(head, row.source))
        return
    if closed:
        for hypothesis in CLOSED:
            text = f"{hypothesis.claim}: no, {hypothesis.evidence} ({hypothesis.source})"
            if hypothesis.instead:
                text += f"; instead: {hypothesis.instead}"
            if hypothesis.unless:
                text += f"; open again with: {hypothesis.unless}"
            output.emit(_wrapped(f"{hypothesis.name:<24} ", text))
        return
    if records:
        output.emit("\n".join(_record_line(row) for row in all_records))
        return
    if history is not None:
        for entry in entries_about("" if history == "." else history):
            commits = f" ({', '.join(entry.commits)})" if entry.commits else ""
            output.emit(_wrapped(f"{entry.date} {entry.tier:<10} ", entry.text + commits))
        return
    output.emit("\n".join(comparison_lines(comparisons(), whole=whole)))


def _roadmap(path: Path, json: bool) -> None:
    from orkbench_tui.driver.timing.roadmap import parse_roadmap
    from orkbench_tui.plain_text import one_line
    from orkbench_tui.user_files import decoded, open_regular, read_bounded

    with open_regular(path, "roadmap") as stream:
        found = parse_roadmap(decoded(read_bounded(stream, _ROADMAP_BYTES, str(path)), str(path)))
    if json:
        items = [
            {**dataclasses.asdict(item), "waits_for": list(found.waits_for(item.id or item.tier))}
            for item in found.items
        ]
        output.emit_json("npu.timing.roadmap", {"items": items}, source="host")
        return
    for item in found.items:
        text = one_line(item.title, _LINE_CHARACTERS)
        if item.correction:
            text += f"; corrected: {one_line(item.correction, _LINE_CHARACTERS)}"
        if waiting := found.waits_for(item.id or item.tier):
            text += f"; waits for {', '.join(waiting)}"
        output.emit(_wrapped(f"{item.tier:<16}{item.id:<8}{item.state.value:<13}", text))


def _one_shape(text: str, json: bool) -> None:
    from orkbench_tui.driver.timing.one_matmul import about, parsed_shape

    wanted = parsed_shape(text)
    data = about(wanted)
    if json:
        output.emit_json(
            "npu.timing.shape", {"shape": [wanted.M, wanted.K, wanted.N], **data}, source="predicted"
        )
        return
    output.emit(f"int8 {wanted.M}x{wanted.K}x{wanted.N}, all figures predicted")
    for name, figure in data.items():
        shown = f"{figure:.4g}" if isinstance(figure, float) else figure
        output.emit(f"{name.replace('_', ' '):<26} {shown}")


def record_data(row: Record) -> dict[str, object]:
    return {
        "id": row.id,
        "name": row.name,
        "figures": dict(row.figures),
        "unit": row.unit,
        "source": row.source,
        "verdict": row.verdict,
        "said": dict(row.said),
        "drawn": dict(row.drawn),
    }


def _record_line(row: Record) -> str:
    figures = ", ".join(f"{name} {value:g}" for name, value in row.figures.items())
    drawn = "".join(f"; {name} {row.drawn[name]:.4g} (said {said:g})" for name, said in row.said.items())
    unit = f" {row.unit}" if row.unit else ""
    return _wrapped(f"{row.id:<8} ", f"{row.name}: {figures}{unit}{drawn}. {row.verdict} ({row.source})")


def comparison_data(row: Comparison) -> dict[str, object]:
    return {
        **dataclasses.asdict(row.figure),
        "predicted": row.predicted,
        "deviation": row.deviation,
        "within": row.within,
        "calibrated": row.calibrated,
        "why": row.why,
    }


def comparison_lines(rows: tuple[Comparison, ...], *, whole: bool) -> list[str]:
    """The table; predicted figures only, unless ``whole``."""
    lines = [(_HEAD.format("figure", "published", "predicted", "unit", "off by")).rstrip()]
    for row in rows:
        if row.deviation is not None:
            head = _HEAD.format(
                row.figure.key,
                f"{row.figure.value:g}",
                f"{row.predicted:.4g}",
                row.figure.unit,
                f"{row.deviation:+.1%}",
            )
            lines.append(_wrapped(head, _basis(row)))
        elif whole:
            head = _HEAD.format(row.figure.key, f"{row.figure.value:g}", "-", row.figure.unit, "-")
            lines.append(_wrapped(head, row.why))
    told = [row for row in rows if row.deviation is not None]
    within = sum(bool(row.within) for row in told)
    lines.append(
        f"{len(told)} of {len(rows)} published figures predicted, {within} within 10 %; "
        f"{sum(row.calibrated for row in told)} of them are what a constant was read off."
    )
    return lines


def _basis(row: Comparison) -> str:
    parts = ["constant read off it"] if row.calibrated else []
    return "; ".join([*parts, row.why] if row.why else parts)


def _wrapped(head: str, text: str) -> str:
    if not text:
        return head.rstrip()
    room = max(_WIDTH - len(head), 40)
    first, *rest = textwrap.wrap(text, room, break_on_hyphens=False)
    return "\n".join([head + first, *(" " * len(head) + line for line in rest)])
