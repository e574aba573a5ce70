"""``ork run bench``: speeds in llama-bench's terms, with everything they depend on in every row."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from orkbench_tui import locations
from orkbench_tui.cli import output
from orkbench_tui.errors import UsageError

__all__ = ["app"]

app = typer.Typer(
    help="Measure speeds, or predict them.",
    invoke_without_command=True,
    rich_markup_mode=None,
    add_completion=False,
)

_FORMS = ("md", "csv", "json", "jsonl")

_Values = "several with commas or by repeating"
_TargetName = Annotated[str | None, typer.Option("--target", help="auto, board or sim.")]
_Json = Annotated[bool, typer.Option("--json", help="One JSON document.")]
_Prompt = Annotated[list[str] | None, typer.Option("-p", "--n-prompt", help=f"Prompt tokens; {_Values}.")]
_Gen = Annotated[list[str] | None, typer.Option("-n", "--n-gen", help=f"Tokens to make; {_Values}.")]
_Threads = Annotated[
    list[str] | None, typer.Option("-t", "--threads", help=f"CPU threads, 0 the big cores; {_Values}.")
]
_Unfit = Annotated[bool, typer.Option("--unfit", help="Time a board the preflight calls unfit; rows say so.")]


def ledger_file() -> Path:
    """Where results are kept."""
    return locations.state_dir() / "bench" / "results.jsonl"


@app.callback()
def bench(
    context: typer.Context,
    model: Annotated[
        list[str] | None,
        typer.Option("-m", "--model", help="Catalogue name, GGUF file or pack; may be repeated."),
    ] = None,
    prompt: _Prompt = None,
    generate: _Gen = None,
    pairs: Annotated[
        list[str] | None, typer.Option("-pg", help="PROMPT,GENERATE measured together; may be repeated.")
    ] = None,
    repetitions: Annotated[int, typer.Option("-r", "--repetitions", help="Times each is measured.")] = 5,
    threads: _Threads = None,
    batch: Annotated[
        list[str] | None, typer.Option("-b", "--batch-size", help=f"Tokens read at once; {_Values}.")
    ] = None,
    micro_batch: Annotated[
        list[str] | None,
        typer.Option("-ub", "--ubatch-size", help=f"Rows through a layer at once, up to 256; {_Values}."),
    ] = None,
    form: Annotated[str, typer.Option("-o", "--output", help="md, csv, json or jsonl.")] = "md",
    quant: Annotated[
        str | None, typer.Option(help="auto, w8a8-rot, w8a8, w4a8-g32-rot, nf4-mixed or f32.")
    ] = None,
    kv_cache: Annotated[
        str | None, typer.Option("--kv-cache", help="Key-value cache: f16, int8 or f32.")
    ] = None,
    warm_up: Annotated[
        bool, typer.Option("--warmup/--no-warmup", help="Run each once before it counts.")
    ] = True,
    unfit: _Unfit = False,
    predict: Annotated[
        bool, typer.Option("--predict", help="What a board would do, from published constants; runs nothing.")
    ] = False,
    table: Annotated[
        bool, typer.Option("--table", help="With --predict: the model against every published figure.")
    ] = False,
    chip: Annotated[
        str, typer.Option(help="With --predict and --against: the chip to predict for.")
    ] = "rk3588",
    against: Annotated[
        str | None,
        typer.Option(metavar="published", help="Own, predicted and published figures side by side."),
    ] = None,
    utilization: Annotated[
        bool, typer.Option("--utilization", help="How busy every NPU and CPU core is meanwhile.")
    ] = False,
    period: Annotated[int, typer.Option(help="With --utilization: milliseconds between looks.")] = 150,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the whole report as one HTML file.")
    ] = None,
    keep: Annotated[
        bool, typer.Option("--keep/--no-keep", help="Add the rows to the ledger of results.")
    ] = True,
    json: _Json = False,
    target: _TargetName = None,
) -> int | None:
    """Measure prompt and generation speed. Loading is reported apart and is in no figure.

    Every row holds its configuration, and says why where it must not be compared.
    """
    if context.invoked_subcommand is not None:
        return None
    from orkbench_tui.cli import bench_run
    from orkbench_tui.runner.bench.cases import cases_of
    from orkbench_tui.settings import Settings

    if form not in _FORMS:
        raise UsageError(f"-o {form}", why=f"allowed: {', '.join(_FORMS)}")
    if not 1 <= repetitions <= 1000:
        raise UsageError(f"-r {repetitions}", why="allowed: 1 to 1000")
    if not 20 <= period <= 10_000:
        raise UsageError(f"--period {period}", why="allowed: 20 to 10000")
    if against not in (None, "published"):
        raise UsageError(f"--against {against}", why="allowed: published")
    if table and not predict:
        raise UsageError("--table needs --predict")
    settings = Settings.load(quant=quant, kv_cache=kv_cache, target=target)
    request = bench_run.Request(
        settings=settings,
        models=tuple(model or (settings.model,)),
        cases=cases_of(prompt, generate, pairs, threads, batch, micro_batch, default=settings.threads),
        repetitions=repetitions,
        warm_up=warm_up,
        unfit=unfit,
        chip=bench_run.chip_of(chip),
        against=against is not None,
        utilization_s=period / 1000 if utilization else None,
        html=html,
        ledger=ledger_file() if keep else None,
        quiet=json,
    )
    if predict:
        bench_run.predicted(request, form, json, table=table)
        return None
    return bench_run.measured(request, form, json)


@app.command()
def compare(
    first: Annotated[str, typer.Argument(help="w8a8, threads=2, a model or pack, or a results file.")],
    second: Annotated[str, typer.Argument(help="The other arm.")],
    pairs: Annotated[int, typer.Option("-r", "--pairs", help="Times both are measured, in turns.")] = 5,
    prompt: _Prompt = None,
    generate: _Gen = None,
    threads: Annotated[int | None, typer.Option("-t", help="CPU threads, 0 the big cores.")] = None,
    model: Annotated[str | None, typer.Option("-m", "--model", help="Model of arms that name none.")] = None,
    unfit: _Unfit = False,
    json: _Json = False,
    target: _TargetName = None,
) -> int | None:
    """Whether the second arm is faster, slower, or the difference noise; fewer than 3 pairs decide nothing."""
    from orkbench_tui.cli import bench_compare
    from orkbench_tui.settings import Settings

    if not 1 <= pairs <= 1000:
        raise UsageError(f"-r {pairs}", why="allowed: 1 to 1000")
    settings = Settings.load(model=model, threads=threads, target=target)
    return bench_compare.compared(
        settings,
        first,
        second,
        prompt,
        generate,
        pairs=pairs,
        unfit=unfit,
        ledger=ledger_file(),
        json=json,
    )


@app.command()
def history(
    file: Annotated[Path | None, typer.Argument(help="A results file; the ledger when left out.")] = None,
    json: _Json = False,
) -> None:
    """Past results by commit, as a table and a plot."""
    from orkbench_tui.cli import diagnostics, plots
    from orkbench_tui.runner.bench.history import commits_of, history_lines, series_of
    from orkbench_tui.runner.bench.ledger import Ledger, read_rows
    from orkbench_tui.runner.bench.record import row_document

    found = Ledger(ledger_file()).rows() if file is None else read_rows(file)
    for text in found.skipped:
        diagnostics.warn(text)
    if json:
        data = {"rows": [row_document(row) for row in found.rows], "commits": commits_of(found.rows)}
        output.emit_json("run.bench.history", data, source="host")
        return
    if not found.rows:
        output.emit("no results yet: `ork run bench` keeps what it measures")
        return
    output.emit("\n".join(history_lines(found.rows)))
    series = series_of(found.rows)
    if len(commits_of(found.rows)) > 1 and series:
        output.emit("\n".join(plots.lines("tokens per second by commit", series)))


@app.command("read")
def read_other(
    file: Annotated[Path, typer.Argument(help="What another tool printed; - for standard input.")],
    json: _Json = False,
) -> None:
    """Figures of another tool's output: llama-bench, ork_bench, ork_ppl, rknn_vs_ork, rkllm; profiles and stacks."""
    from orkbench_tui.cli.bench_read import read_output

    read_output(file, json=json)
