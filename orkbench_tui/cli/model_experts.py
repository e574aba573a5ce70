"""``ork model experts``: how unevenly a mixture of experts uses its experts on a text."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from orkbench_tui import locations
from orkbench_tui.cli import diagnostics, model_session, output
from orkbench_tui.cli.input import TEXT_BYTES
from orkbench_tui.errors import DeniedError, RefusedError, UsageError
from orkbench_tui.plural import counted
from orkbench_tui.settings import Settings
from orkbench_tui.user_files import check_place, read_text_bounded

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from orkbench_tui.runner.engine import Engine
    from orkbench_tui.runner.models.architecture import Architecture

__all__ = ["experts"]

DEFAULT_TOKENS = 2048
# The share of experts the published cache was to hold.
_HOT = 0.10
_VERDICT = (
    "Published: a cache of experts on the NPU decoded 3.86 tok/s, the CPU 5.7 to 7.5, "
    "so experts stay on the CPU here whatever the skew."
)


def experts(
    model: Annotated[str | None, typer.Argument(help="Catalogue name, GGUF file or pack.")] = None,
    file: Annotated[Path | None, typer.Option(help="UTF-8 text; the standard text when left out.")] = None,
    tokens: Annotated[int, typer.Option(help="Tokens of the text to look at.")] = DEFAULT_TOKENS,
    table: Annotated[
        Path | None, typer.Option("--csv", metavar="FILE", help="Write layer, expert and count here.")
    ] = None,
    quant: Annotated[
        str | None,
        typer.Option(
            help="Arithmetic the text is read with, which decides close calls between experts: auto, w8a8-rot, "
            "w8a8, w4a8-g32-rot, nf4-mixed or f32; auto is what `ork run` would take."
        ),
    ] = None,
    threads: Annotated[int | None, typer.Option(help="CPU threads; 0 takes the big cores.")] = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON document.")] = False,
) -> None:
    """Count which experts a text takes in each layer: skew (Gini) and what a cache of experts would serve."""
    if not 1 <= tokens <= 1 << 17:
        raise UsageError(f"--tokens {tokens} is out of range", why="allowed: 1 to 131072")
    # Up to the default a model made for less is read as far as it was made for; more is asked for on purpose.
    context = tokens if tokens > Settings().context else None
    settings = Settings.load(model=model, quant=quant, threads=threads, context=context)
    _require_experts(settings)
    if file is None:
        from orkbench_tui.runner.texts import PERPLEXITY_TEXT, perplexity_text

        name, text = PERPLEXITY_TEXT, perplexity_text()
    else:
        name, text = file.name, read_text_bounded(file, TEXT_BYTES, "text file")
    if table is not None:
        check_place(table, "table")
        if table.exists():
            raise RefusedError(f"{table} is there already", do="remove it or name another file")
    with model_session.open_session(settings) as session:
        engine = cast("Engine", session.engine)
        ids = session.tokenizer.encode(text)[: min(tokens, engine.context)]
        if not ids:
            raise UsageError(f"{name} holds no text", do="give a text")
        trace = engine.expert_choices(ids)
        figures = _figures(engine.architecture, trace)
        if table is not None:
            _write(table, engine.architecture, trace)
            diagnostics.note(f"counts in {table}")
        if json:
            output.emit_json(
                "model.experts", {"model": session.model, "text": name, **figures}, source="host"
            )
            return
        _show(session.model, name, figures)


def _require_experts(settings: Settings) -> None:
    """Raise before hours go into packing a model that has nothing to count; one not here yet is pulled first."""
    from orkbench_tui.runner.dispatch.model_file import described
    from orkbench_tui.runner.model_store import locate

    entry, path = locate(settings.model, locations.models_dir())
    if path.is_file() and described(path).architecture.moe is None:
        raise RefusedError(
            f"{entry.name if entry else path.name} has no experts",
            do="choose a mixture of experts, for example a qwen3moe",
        )


def _figures(architecture: Architecture, trace: NDArray[np.int32]) -> dict[str, Any]:
    from dataclasses import asdict

    from orkbench_tui.host_memory import total_bytes
    from orkbench_tui.runner.expert_floor import floor_s, submits_of
    from orkbench_tui.runner.expert_partition import PartitionPolicy, partition
    from orkbench_tui.runner.expert_residency import expert_residency
    from orkbench_tui.runner.expert_skew import cache_rows, expert_counts, gini, layer_ginis

    moe = architecture.moe
    assert moe is not None
    # gate, up and down in int8, without their scales.
    expert_bytes = 3 * architecture.embedding * moe.feed_forward
    counts = expert_counts(trace, moe.count)
    ginis = layer_ginis(counts)
    submits = submits_of(trace)
    residency = expert_residency(architecture, total_bytes())
    hot = PartitionPolicy(npu=True, resident=max(1, round(_HOT * moe.count)))
    return {
        "tokens": trace.shape[1],
        "layers": trace.shape[0],
        "experts": moe.count,
        "used": moe.used,
        "expert_bytes_int8": expert_bytes,
        "gini": round(sum(ginis) / len(ginis), 4),
        "gini_by_layer": [round(value, 4) for value in ginis],
        "gini_all_layers_as_one": round(gini(counts.sum(axis=0)), 4),
        "never_taken": int((counts == 0).sum()),
        "caches": [
            {key: round(value, 4) for key, value in asdict(row).items()}
            for row in cache_rows(trace, moe.count, expert_bytes)
        ],
        "npu_submits": asdict(submits),
        "npu_submit_floor_s_predicted": round(floor_s(submits.by_expert), 4),
        "resident": {
            "weights": residency.weights,
            "bytes_int8": residency.bytes,
            "windows": residency.windows,
            "refused": residency.refusal or None,
        },
        "partition": {
            "resident": hot.resident,
            "least_rows": hot.least_rows,
            **asdict(partition(trace, moe.count, hot)),
        },
    }


def _show(model: str, text: str, figures: dict[str, Any]) -> None:
    output.emit(
        f"{model}: {figures['used']} of {figures['experts']} experts in each of {figures['layers']} layers, "
        f"{figures['tokens']} tokens of {text}"
    )
    lowest, highest = min(figures["gini_by_layer"]), max(figures["gini_by_layer"])
    output.emit(
        f"Gini        {figures['gini']:.2f} (layers {lowest:.2f} to {highest:.2f}; 0 is even use, near 1 one expert)"
    )
    places = figures["layers"] * figures["experts"]
    output.emit(f"never taken {figures['never_taken']} of {places} (layer, expert) pairs")
    output.emit("")
    output.emit("share of choices a cache would serve, in experts per layer and int8 bytes of all layers:")
    output.emit(f"{'experts':>8} {'MB':>10} {'pinned':>8} {'one pin':>8} {'LRU':>8}")
    for row in figures["caches"]:
        rates = "".join(f" {row[key]:>8.1%}" for key in ("pinned", "global_pin", "lru"))
        output.emit(f"{row['capacity']:>8} {row['cache_bytes'] / 1e6:>10.1f}{rates}")
    output.emit("pinned: the most taken of each layer on this text; one pin: the same experts in every layer")
    submits, floor = figures["npu_submits"], figures["npu_submit_floor_s_predicted"]
    output.emit(
        f"On the NPU this text as one prompt would take {submits['by_token']:,} submits token by token, "
        f"{submits['by_expert']:,} by expert, {submits['chained']:,} chained; by expert the submits alone "
        f"{floor:.2g} s (predicted from a published floor)."
    )
    resident = figures["resident"]
    output.emit(
        f"All {resident['weights']:,} experts' weights in NPU memory would be {resident['bytes_int8'] / 1e6:,.1f} MB in "
        f"{counted(resident['windows'], 'window')}: {resident['refused'] or 'they fit'}."
    )
    split = figures["partition"]
    output.emit(
        f"With the {split['resident']} most taken of each layer there, and {split['least_rows']} rows or more to go, the "
        f"NPU would serve {split['npu_choices']:,} of {split['npu_choices'] + split['cpu_choices']:,} choices in "
        f"{split['submits']:,} submits."
    )
    output.emit(_VERDICT)


def _write(path: Path, architecture: Architecture, trace: NDArray[np.int32]) -> None:
    from orkbench_tui.runner.expert_skew import expert_counts

    assert architecture.moe is not None
    counts = expert_counts(trace, architecture.moe.count)
    try:
        with path.open("x", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(("layer", "expert", "count"))
            writer.writerows(
                (layer, expert, int(count))
                for layer, row in enumerate(counts)
                for expert, count in enumerate(row)
            )
    except OSError as error:
        raise DeniedError(f"{path} cannot be written", why=error.strerror or str(error)) from error
