"""One engine and the cases measured on it: open, load, warm, repeat, write down."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, cast

from orkbench_tui.cli import diagnostics, model_session
from orkbench_tui.cli.bench_board import BoardWatch
from orkbench_tui.driver.timing.labels import CLOCK, JOB_TIME
from orkbench_tui.runner.bench.build import build_changed, build_commit, kernels_sha256
from orkbench_tui.runner.bench.cases import Case
from orkbench_tui.runner.bench.conditions import BoardState, file_marks, spoiled_reasons, standing_reasons
from orkbench_tui.runner.bench.measure import Repetition, measure, needed_context
from orkbench_tui.runner.bench.provenance import provenance_reasons
from orkbench_tui.runner.bench.record import ModelFacts, Row, made_row
from orkbench_tui.runner.bench.utilization import Phase, Recorder, phase_of
from orkbench_tui.settings import Settings
from orkbench_tui.upstream_variables import set_variables
from orkbench_tui.version import VERSION

if TYPE_CHECKING:
    from orkbench_tui.cli.model_session import ModelSession
    from orkbench_tui.driver.timing.shapes import ModelShape
    from orkbench_tui.runner.engine import Engine

__all__ = ["Plan", "Results", "run_cases"]

_UTILIZATION_S = 5.0


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do with each engine. ``utilization_s`` is the period of the sampler, None for none."""

    cases: tuple[Case, ...]
    repetitions: int
    warm_up: bool = True
    utilization_s: float | None = None
    arm: str = ""
    quiet: bool = False


@dataclass(slots=True)
class Results:
    rows: list[Row] = field(default_factory=list)
    phases: list[Phase] = field(default_factory=list)
    spoiled: list[str] = field(default_factory=list)
    shape: ModelShape | None = None
    interrupted: bool = False


def run_cases(
    settings: Settings,
    plan: Plan,
    watch: BoardWatch | None,
    should_stop: Callable[[], bool],
    keep: Callable[[Row], None],
    results: Results,
) -> None:
    """Measure ``plan`` with one engine; rows go to ``results`` and to ``keep`` as they are made.

    Raises:
        OrkError: the model cannot be opened.
    """
    wanted = max(needed_context(plan.cases), 16)
    with model_session.open_session(settings.with_flags(context=wanted)) as session:
        facts = _facts(session, settings)
        results.shape = _shape(session)
        for case in plan.cases:
            row, spoiled = _one(session, facts, case, plan, watch, should_stop)
            results.rows.append(row)
            results.spoiled += [reason for reason in spoiled if reason not in results.spoiled]
            keep(row)
            if row.partial:
                results.interrupted = True
                return
            if plan.utilization_s is not None and watch is not None:
                phase = _utilization(session, case, watch, plan.utilization_s, should_stop)
                results.phases += [phase] if phase is not None else []


def _one(
    session: ModelSession,
    facts: ModelFacts,
    case: Case,
    plan: Plan,
    watch: BoardWatch | None,
    should_stop: Callable[[], bool],
) -> tuple[Row, list[str]]:
    states: list[BoardState] = []
    files = [path for path in (session.model_path, session.pack_path) if path is not None]
    marks = file_marks(files)

    def look() -> None:
        if watch is not None:
            states.append(watch.state())

    def told(repetition: Repetition) -> None:
        if not plan.quiet:
            diagnostics.note(f"{case.test}: {repetition.tokens_per_s:.2f} t/s ({CLOCK[session.source]})")

    measured = measure(
        _engine(session),
        case,
        plan.repetitions,
        npu_use=None if session.source == "host" else lambda: _npu_use(session),
        warm_up=plan.warm_up,
        should_stop=should_stop,
        on_warm=look,
        on_repetition=told,
    )
    look()
    spoiled = spoiled_reasons(states, marks, file_marks(files), measured.repetitions)
    standing = standing_reasons(states[0]) if states else _host_reasons(session.source)
    commit = build_commit()
    own = provenance_reasons(facts, commit=commit, version=VERSION, changed=build_changed())
    row = made_row(
        measured,
        facts,
        label=CLOCK[session.source],
        state=states[0] if states else None,
        reasons=[*standing, *own, *spoiled],
        version=VERSION,
        commit=commit,
        taken_unix_s=time.time(),
        threads=_threads(case.threads),
        arm=plan.arm,
        kernels=kernels_sha256(),
        variables=set_variables(os.environ),
    )
    return row, spoiled


def _host_reasons(source: str) -> list[str]:
    return ["no NPU takes part: a figure of this machine's processor"] if source == "host" else []


def _threads(asked: int) -> int:
    from orkbench_tui.runner.processors import fast_processors

    return asked or fast_processors()


def _npu_use(session: ModelSession) -> tuple[int, int]:
    use = session.npu_use()
    return use.hw_ns, use.submits


def _utilization(
    session: ModelSession,
    case: Case,
    watch: BoardWatch,
    period_s: float,
    should_stop: Callable[[], bool],
) -> Phase | None:
    """The case again and again for some seconds under the sampler: windows of a second need that."""
    began = time.perf_counter()
    tokens = 0
    with Recorder(watch.reading, period_s) as recorder:
        while time.perf_counter() - began < _UTILIZATION_S:
            measured = measure(_engine(session), case, 1, warm_up=False, should_stop=should_stop)
            if measured.partial:
                return None
            tokens += case.tokens
        ended = time.perf_counter()
    return phase_of(
        f"{session.model[:14]} {case.test}",
        recorder.readings,
        began,
        ended,
        tokens / (ended - began),
        npu_label=JOB_TIME[watch.files.label],
        cpu_label=CLOCK[watch.files.label],
    )


def _engine(session: ModelSession) -> Engine:
    """The session's engine as what it is: sessions show only what a chat needs of it."""
    return cast("Engine", session.engine)


def _shape(session: ModelSession) -> ModelShape:
    from orkbench_tui.runner.models.model_shape import model_shape

    return model_shape(_engine(session).architecture)


def _facts(session: ModelSession, settings: Settings) -> ModelFacts:
    shape = _shape(session)
    residence = _engine(session).residence
    file = session.model_path
    return ModelFacts(
        name=session.model,
        file=os.fspath(file) if file else "",
        sha256=session.model_sha256(),
        pack_sha256=_pack_sha256(session.pack_path),
        quant=session.quant,
        kv_cache=settings.kv_cache,
        path="npu" if session.source != "host" and (residence is None or residence.weights) else "cpu",
        parameters=shape.layer_weights + shape.head_weights,
        file_bytes=file.stat().st_size if file else 0,
        weights=None if residence is None else residence.weights,
        expected=None if residence is None else residence.expected,
        resident_bytes=None if residence is None else residence.bytes,
        domains=None if residence is None else len(residence.domains),
        load_s=session.load_s,
    )


def _pack_sha256(path: Path | None) -> str:
    from orkbench_tui import locations
    from orkbench_tui.runner.quantize.source_digest import remembered_sha256

    return "" if path is None else remembered_sha256(path, locations.packs_dir()).hex()
