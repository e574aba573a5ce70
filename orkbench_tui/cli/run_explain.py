"""``ork run explain``: for every operation of a model, where it runs, what it costs there, and why."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orkbench_tui.cli import diagnostics, output
from orkbench_tui.errors import UsageError
from orkbench_tui.plural import counted
from orkbench_tui.settings import Settings

if TYPE_CHECKING:
    from orkbench_tui.runner.dispatch.explain import Explanation, Section
    from orkbench_tui.runner.dispatch.unit import Decision
    from orkbench_tui.runner.overlap.predict import UtilizationTable

__all__ = ["explain"]

_PREFILL_TOKENS, _MOST_TOKENS = 512, 1 << 20
_MIN_WIDTH, _MAX_WIDTH = 80, 130
_SHORT = 40
"""Letters of a reason that is quicker read again than looked up."""
_ROW = "  {:<9} {:<24} {:<5} {:>9} {:>9}  "


def explain(
    model: Annotated[str | None, typer.Argument(help="Catalogue name, GGUF file or pack.")] = None,
    mode: Annotated[str, typer.Option("--mode", "-m", help="prefill or decode.")] = "prefill",
    tokens: Annotated[
        int, typer.Option(help="Tokens of the prompt; with decode, those already there.")
    ] = _PREFILL_TOKENS,
    quant: Annotated[
        str | None, typer.Option(help="auto, w8a8-rot, w8a8, w4a8-g32-rot, nf4-mixed or f32.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON document.")] = False,
) -> None:
    """Why is this on the CPU? Every operation of a model with its place, its predicted times and the reason."""
    from orkbench_tui import locations
    from orkbench_tui.runner.dispatch.dispatcher import Dispatcher, parse_overrides
    from orkbench_tui.runner.dispatch.explain import MODES
    from orkbench_tui.runner.dispatch.explain import explain as explanation_of
    from orkbench_tui.runner.dispatch.model_file import described
    from orkbench_tui.runner.model_store import locate

    if mode not in MODES:
        raise UsageError(
            f"--mode {mode!r} is not known",
            why=f"allowed: {', '.join(MODES)}",
            do="the model is the argument: ork run explain MODEL -m prefill",
        )
    if not 1 <= tokens <= _MOST_TOKENS:
        raise UsageError(f"--tokens {tokens} is out of range", why=f"allowed: 1 to {_MOST_TOKENS}")
    settings = Settings.load(model=model, quant=quant)
    entry, path = locate(settings.model, locations.models_dir())
    if entry is not None and not path.exists():
        raise UsageError(f"{entry.name} is not here yet", do=f"run: ork model pull {entry.name}")
    dispatcher = Dispatcher(parse_overrides(settings.dispatch), npu=settings.quant != "f32")
    model_file = described(path)
    longest = model_file.architecture.context_length
    if tokens > longest:
        diagnostics.note(f"{model_file.name} was made for up to {longest} tokens: a run refuses {tokens}")
    explanation = explanation_of(model_file, dispatcher, MODES[mode], tokens)
    if json:
        output.emit_json("run.explain", explanation_data(explanation), source="host")
    else:
        output.emit("\n".join(explanation_lines(explanation)))


def explanation_data(explanation: Explanation) -> dict[str, Any]:
    """The ``data`` of ``--json``; times are predicted microseconds."""
    return {
        "model": explanation.model,
        "mode": explanation.mode,
        "tokens": explanation.tokens,
        "rows": explanation.rows,
        "chunks": list(explanation.chunks),
        "micro_batches": list(explanation.micro_batches),
        "label": "predicted",
        "sections": [
            {
                "layers": list(section.layers),
                "title": section.title,
                "operations": [_decision_data(decision) for decision in section.decisions],
            }
            for section in explanation.sections
        ],
        "once": [{"what": what, "us": us} for what, us in explanation.once],
        "busy": None if explanation.busy is None else _busy_data(explanation.busy),
    }


def _busy_data(table: UtilizationTable) -> dict[str, Any]:
    return {
        shares.name: {
            "in_flight": shares.in_flight,
            "npu_cores": list(shares.cores),
            "cpu": shares.cpu,
            "ms": shares.wall_ns / 1e6,
            "tok_s": shares.tokens_per_s,
        }
        for shares in (table.serial, table.overlapped)
    }


def _decision_data(decision: Decision) -> dict[str, Any]:
    unit = decision.unit
    return {
        "op": unit.op.value,
        "M": unit.M,
        "K": unit.K or None,
        "N": list(unit.N),
        "context": unit.context or None,
        "source_type": unit.source.name or None,
        "where": decision.place.value,
        "npu_us": decision.npu_us,
        "cpu_us": decision.cpu_us,
        "rule": decision.rule,
        "why": decision.why,
    }


def explanation_lines(explanation: Explanation) -> list[str]:
    """The table for people, as wide as the terminal allows."""
    from orkbench_tui.runner.dispatch.unit import Place

    width = min(max(shutil.get_terminal_size((100, 24)).columns, _MIN_WIDTH), _MAX_WIDTH)
    counts = {place: explanation.count(place) for place in Place}
    lines = [
        *textwrap.wrap(_headline(explanation), width),
        *textwrap.wrap(
            f"{counts[Place.NPU]} matmul calls on the NPU, {counts[Place.CPU]} on the CPU. "
            "All times are predicted for an RK3588, in microseconds; - is not known.",
            width,
        ),
        *textwrap.wrap(_in_short(explanation), width),
        "",
        _ROW.format("", "M, K, N", "where", "NPU", "CPU") + "why",
    ]
    told: dict[str, str] = {}
    for section in _told_apart(explanation.sections):
        each = ", each" if len(section.layers) > 1 else ""
        lines += textwrap.wrap(f"{section.title}{each}", width, subsequent_indent="  ")
        lines += [_line(decision, width, told) for decision in section.decisions]
    for what, us in explanation.once:
        lines.append(f"Once, in no row: {what}, {us:.0f} us.")
    if explanation.busy is not None:
        for shares in (explanation.busy.serial, explanation.busy.overlapped):
            lines += textwrap.wrap(
                f"The whole prompt {shares.name} (predicted): {shares.wall_ns / 1e6:.0f} ms, {shares.tokens_per_s:.0f} tok/s, "
                f"NPU busy {100 * shares.npu:.0f} %, CPU {100 * shares.cpu:.0f} %.",
                width,
            )
    return lines


def _headline(explanation: Explanation) -> str:
    if explanation.mode == "decode":
        return f"{explanation.model}: one token after {explanation.tokens}"
    chunks = "+".join(map(str, explanation.chunks[:4])) + ("+..." if len(explanation.chunks) > 4 else "")
    text = (
        f"{explanation.model}: a prompt of {counted(explanation.tokens, 'token')} in chunks of {chunks}, "
        f"programs of {counted(explanation.rows, 'row')}"
    )
    if explanation.micro_batches:
        parts = "+".join(map(str, explanation.micro_batches[:4]))
        text += f"; where overlap is faster, {parts}{'+...' if len(explanation.micro_batches) > 4 else ''}"
    return text


def _in_short(explanation: Explanation) -> str:
    """Which operations run where, as one sentence."""
    from orkbench_tui.runner.dispatch.unit import Place

    places: dict[str, set[Place]] = {}
    for section in explanation.sections:
        for decision in section.decisions:
            places.setdefault(decision.unit.op.value, set()).add(decision.place)
    both = [op for op, found in places.items() if len(found) > 1]
    ways = [
        (f"on the {place.value.upper()}", [op for op, found in places.items() if found == {place}])
        for place in Place
    ]
    if {place for found in places.values() for place in found} == {Place.CPU}:
        return "In short: everything on the CPU."
    told = [f"{', '.join(ops)} {where}" for where, ops in [*ways, ("on both, by layer", both)] if ops]
    return f"In short: {'; '.join(told)}."


def _told_apart(sections: Sequence[Section]) -> list[Section]:
    """Sections with the same lines as one: layers that differ in the types of the file alone read alike."""
    alike: dict[tuple[object, ...], Section] = {}
    for section in sections:
        key = (bool(section.layers), *(_cells(decision) for decision in section.decisions))
        same = alike.get(key)
        layers = section.layers if same is None else tuple(sorted((*same.layers, *section.layers)))
        alike[key] = replace(section, layers=layers)
    return list(alike.values())


def _line(decision: Decision, width: int, told: dict[str, str]) -> str:
    """``told`` holds reasons given above with the operation each was given for; a long one is not said twice."""
    head = _ROW.format(*_cells(decision)[:-1])
    why, op = decision.why, decision.unit.op.value
    if len(why) > _SHORT and why in told:
        why = "the same" if told[why] == op else f"as for {told[why]}"
    told.setdefault(decision.why, op)
    return "\n".join(textwrap.wrap(why, width, initial_indent=head, subsequent_indent=" " * len(head)))


def _cells(decision: Decision) -> tuple[str, ...]:
    unit = decision.unit
    shape = (
        f"{unit.M}, {unit.K}, {'+'.join(map(str, unit.N))}"
        if unit.is_matmul
        else f"{unit.M} row{'s' if unit.M > 1 else ''}"
    )
    if unit.is_matmul and len(unit.N) > 3:
        shape = f"{unit.M}, {unit.K}, {len(unit.N)} x {unit.N[0]}"
    if unit.context:
        shape += f" over {unit.context}"
    npu, cpu = _us(decision.npu_us), _us(decision.cpu_us)
    return unit.op.value, shape, decision.place.value.upper(), npu, cpu, decision.why


def _us(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f}"
