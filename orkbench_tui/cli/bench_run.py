"""What ``ork run bench`` does once its words are parsed."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orkbench_tui.cli import diagnostics, output, plots
from orkbench_tui.cli.bench_board import BoardWatch, board_watch, refuse_unfit
from orkbench_tui.cli.bench_session import Plan, Results, run_cases
from orkbench_tui.cli.stop_switch import StopSwitch
from orkbench_tui.driver.soc import SOCS, Soc
from orkbench_tui.driver.timing.labels import CLOCK
from orkbench_tui.errors import ExitCode, OrkError, UsageError
from orkbench_tui.own_files import own_file_error
from orkbench_tui.runner.bench.against import SideBySide, against_lines, against_published
from orkbench_tui.runner.bench.cases import Case
from orkbench_tui.runner.bench.ledger import Ledger
from orkbench_tui.runner.bench.record import Row, row_document
from orkbench_tui.runner.bench.render import rendered
from orkbench_tui.runner.bench.utilization import utilization_lines
from orkbench_tui.settings import Settings
from orkbench_tui.user_files import check_place

if TYPE_CHECKING:
    from orkbench_tui.driver.timing.shapes import ModelShape
    from orkbench_tui.runner.bench.record import ModelFacts

__all__ = ["Request", "chip_of", "ledger_writer", "measured", "predicted", "watched"]

_PREDICTED_QUANT = {"auto": "w8a8-rot", "w8a8-rot": "w8a8-rot"}


@dataclass(frozen=True, slots=True)
class Request:
    settings: Settings
    models: tuple[str, ...]
    cases: tuple[Case, ...]
    repetitions: int
    warm_up: bool
    unfit: bool
    chip: Soc
    against: bool
    utilization_s: float | None
    html: Path | None
    ledger: Path | None
    quiet: bool


def chip_of(name: str) -> Soc:
    """Raises:
    UsageError: no chip of that name.
    """
    if name not in SOCS:
        raise UsageError(f"--chip {name}", why=f"allowed: {', '.join(SOCS)}")
    return SOCS[name]


def watched(stack: ExitStack, settings: Settings, *, unfit: bool) -> BoardWatch | None:
    """A watch over the board, after its preflight; None where no NPU takes part.

    Raises:
        RefusedError: the board is unfit and ``unfit`` is off. The simulated one is only told of: its figures
            are this machine's.
    """
    if settings.quant == "f32":
        return None
    watch = stack.enter_context(board_watch(settings))
    watch.judge()
    if CLOCK[watch.files.label] == "host":
        if watch.failed:
            diagnostics.note(f"the simulated board fails its preflight: {', '.join(watch.failed)}")
    else:
        refuse_unfit(watch, anyway=unfit)
    return watch


def ledger_writer(path: Path | None) -> Callable[[Row], None]:
    """Keeps rows with a figure in the ledger; a ledger that cannot be written is told of once."""
    ledger = None if path is None else Ledger(path)

    def keep(row: Row) -> None:
        nonlocal ledger
        if ledger is None or not row.speeds:
            return
        try:
            ledger.append([row])
        except OrkError as error:
            # What was measured is still shown.
            ledger = None
            diagnostics.warn(f"results are not kept: {error.line()}")

    return keep


def measured(request: Request, form: str, json: bool) -> int | None:
    """Measure, print, keep. Ctrl-C prints what there is and ends with 130."""
    _check_report(request)
    results = Results()
    keep = ledger_writer(request.ledger)
    with StopSwitch() as stop, ExitStack() as stack:
        watch = watched(stack, request.settings, unfit=request.unfit)
        for model in request.models:
            for threads in dict.fromkeys(case.threads for case in request.cases):
                own = tuple(case for case in request.cases if case.threads == threads)
                plan = Plan(
                    own,
                    request.repetitions,
                    warm_up=request.warm_up,
                    utilization_s=request.utilization_s,
                    quiet=request.quiet,
                )
                if not results.interrupted:
                    settings = request.settings.with_flags(model=model, threads=threads)
                    try:
                        run_cases(settings, plan, watch, stop, keep, results)
                    except OrkError:
                        # A model that cannot be opened, or a board that went away, takes no rows with it.
                        if results.rows:
                            _show(request, results, form, json)
                        raise
    _show(request, results, form, json)
    if results.interrupted:
        diagnostics.note("interrupted: what was measured is above, marked partial")
        return ExitCode.INTERRUPTED.value
    return None


def _show(request: Request, results: Results, form: str, json: bool) -> None:
    rows = results.rows
    source = rows[0].state.label if rows and rows[0].state else "host"
    beside: list[SideBySide] = []
    if request.against and results.shape is not None:
        beside = against_published(rows, results.shape, request.chip)
    if json:
        output.emit_json("run.bench", _document(rows, beside, results), source=source)
    elif rows:
        output.emit("\n".join(rendered(rows, form)))
    if form == "md" and not json:
        _show_more(beside, results)
    if request.html is not None:
        _write_html(request.html, request, results, beside)


def _show_more(beside: Sequence[SideBySide], results: Results) -> None:
    if beside:
        output.emit("")
        output.emit("\n".join(against_lines(beside)))
    if results.phases:
        output.emit("")
        output.emit("\n".join(utilization_lines(results.phases)))
        for phase in results.phases:
            known = [(name, points) for name, points in phase.lines if points]
            if known:
                output.emit(
                    "\n".join(plots.lines(f"NPU load % ({phase.npu_label}), {phase.name}, seconds", known))
                )


def _document(rows: Sequence[Row], beside: Sequence[SideBySide], results: Results) -> dict[str, Any]:
    import dataclasses

    return {
        "rows": [row_document(row) for row in rows],
        "against": [dataclasses.asdict(row) for row in beside],
        "utilization": [
            {**dataclasses.asdict(phase), "cpu": {str(k): v for k, v in phase.cpu.items()}}
            for phase in results.phases
        ],
        "partial": results.interrupted,
    }


def _check_report(request: Request) -> None:
    """A report that cannot be written is told of before the work it is about."""
    if request.html is not None:
        check_place(request.html, "report")


def _write_html(path: Path, request: Request, results: Results, beside: Sequence[SideBySide]) -> None:
    from orkbench_tui.driver.timing.reproduction import comparisons
    from orkbench_tui.runner.bench.history import series_of
    from orkbench_tui.runner.bench.report_html import html_report

    past: Sequence[Row] = ()
    if request.ledger is not None:
        with contextlib.suppress(OrkError):
            past = Ledger(request.ledger).rows().rows
    page = html_report(
        results.rows,
        beside,
        comparisons() if request.against else (),
        results.phases,
        series_of(past) if past else (),
        title="ork run bench",
        taken=time.strftime("%Y-%m-%d %H:%M:%S %Z"),
    )
    try:
        path.write_text(page, encoding="utf-8")
    except OSError as error:
        raise own_file_error(error, path, "the report") from error
    diagnostics.note(f"report: {path}")


def predicted(request: Request, form: str, json: bool, *, table: bool) -> None:
    """Rows of predictions; nothing is opened but the model's header."""
    from orkbench_tui.runner.bench.predict import ASSUMPTION, predicted_rows
    from orkbench_tui.version import VERSION

    if table:
        from orkbench_tui.cli.npu_timing import timing

        timing(json=json)
        return
    _check_report(request)
    rows: list[Row] = []
    beside: list[SideBySide] = []
    for model in request.models:
        shape, facts = _shape_of(request.settings, model)
        rows += predicted_rows(shape, facts, request.cases, request.chip, version=VERSION, now=time.time())
        if request.against and not beside:
            beside = against_published((), shape, request.chip)
    results = Results(rows=rows)
    if request.html is not None:
        _write_html(request.html, replace(request, ledger=None), results, beside)
    if json:
        output.emit_json("run.bench", _document(rows, beside, results), source="host")
        return
    output.emit("\n".join(rendered(rows, form)))
    if form == "md":
        output.emit(ASSUMPTION.format(soc=request.chip.name))
        if beside:
            output.emit("\n".join(against_lines(beside)))


def _shape_of(settings: Settings, model: str) -> tuple[ModelShape, ModelFacts]:
    """Sizes of a reference model by name, or of a model file or pack by its header."""
    from orkbench_tui import locations
    from orkbench_tui.driver.timing.shapes import REFERENCE_MODELS
    from orkbench_tui.runner import model_store
    from orkbench_tui.runner.bench.model_header import header_shape
    from orkbench_tui.runner.bench.record import ModelFacts

    if model in REFERENCE_MODELS:
        shape, name, path = REFERENCE_MODELS[model], model, None
    else:
        entry, path = model_store.locate(model, locations.models_dir())
        if entry is not None and not path.exists():
            raise UsageError(f"{model} is not here", do=f"run: ork model pull {entry.name}")
        shape, name = header_shape(path), path.stem if entry is None else entry.name
    weights = shape.layer_weights + shape.head_weights
    facts = ModelFacts(
        name=name,
        file="" if path is None else str(path),
        sha256="",
        pack_sha256="",
        # What is predicted is int8, whatever else could be run.
        quant=_PREDICTED_QUANT.get(settings.quant, "w8a8"),
        kv_cache=settings.kv_cache,
        path="npu",
        parameters=weights,
        file_bytes=weights if path is None else path.stat().st_size,
    )
    return shape, facts
