"""One row of results: the figure, and everything it depends on."""

from __future__ import annotations

import statistics as _statistics
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from orkbench_tui.driver.timing.labels import checked_label
from orkbench_tui.errors import InvalidFileError
from orkbench_tui.runner.bench.cases import Case
from orkbench_tui.runner.bench.conditions import BoardState
from orkbench_tui.runner.bench.measure import Measured
from orkbench_tui.runner.bench.statistics import spread

__all__ = ["ROW_SCHEMA", "ModelFacts", "Row", "made_row", "parse_row", "row_document"]

ROW_SCHEMA = "ork.bench.row/1"


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """What was run. Hashes are hexadecimal, "" where unknown; ``weights`` loaded into NPU memory of ``expected``.

    ``path`` says where matmuls went (``npu`` or ``cpu``), ``parameters`` counts weights, sizes in bytes.
    """

    name: str
    file: str
    sha256: str
    pack_sha256: str
    quant: str
    kv_cache: str
    path: str
    parameters: int
    file_bytes: int
    weights: int | None = None
    expected: int | None = None
    resident_bytes: int | None = None
    domains: int | None = None
    load_s: float | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """``label`` tells what kind of figure it is: measured, host, predicted or published. ``commit`` and
    ``kernels`` (sha256 of the native kernels) tell the build.

    ``speeds`` are tokens per second of the repetitions, in order. ``reasons`` say why it must not be compared.
    ``variables`` are the ``ORK_`` variables that were set, ours and others.
    """

    case: Case
    model: ModelFacts
    label: str
    speeds: tuple[float, ...]
    warm: bool
    partial: bool
    state: BoardState | None
    reasons: tuple[str, ...]
    version: str
    commit: str
    taken_unix_s: float
    threads: int
    npu_ns: float | None = None
    npu_label: str = ""
    submits: float | None = None
    arm: str = ""
    kernels: str = ""
    variables: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        checked_label(self.label)

    @property
    def comparable(self) -> bool:
        return not self.reasons

    @property
    def mean(self) -> float | None:
        return spread(self.speeds).mean if self.speeds else None

    @property
    def sd(self) -> float | None:
        return spread(self.speeds).sd if self.speeds else None


def made_row(
    measured: Measured,
    model: ModelFacts,
    *,
    label: str,
    state: BoardState | None,
    reasons: list[str],
    version: str,
    commit: str,
    taken_unix_s: float,
    threads: int,
    arm: str = "",
    kernels: str = "",
    variables: Mapping[str, str] | None = None,
) -> Row:
    """A row of what was measured; NPU time and submits are medians over the repetitions."""
    done = measured.repetitions
    if measured.partial:
        reasons = [*reasons, f"interrupted after {len(done)} repetitions"]
    times = [r.npu_ns for r in done if r.npu_ns is not None]
    return Row(
        case=measured.case,
        model=model,
        label=label,
        speeds=tuple(r.tokens_per_s for r in done),
        warm=measured.warm,
        partial=measured.partial,
        state=state,
        reasons=tuple(reasons),
        version=version,
        commit=commit,
        taken_unix_s=taken_unix_s,
        threads=threads,
        npu_ns=_statistics.median(times) if times else None,
        npu_label="" if not times else "measured" if label == "measured" else "predicted",
        submits=_statistics.median([r.submits for r in done]) if done else None,
        arm=arm,
        kernels=kernels,
        variables=dict(variables or {}),
    )


def row_document(row: Row) -> dict[str, Any]:
    """JSON of a row; names of llama-bench where it has the same field."""
    case, model = row.case, row.model
    ns = [case.tokens / speed * 1e9 for speed in row.speeds]
    times = spread(ns) if ns else None
    return {
        "schema": ROW_SCHEMA,
        "test": case.test,
        "n_prompt": case.prompt,
        "n_gen": case.generate,
        "n_batch": case.batch,
        "n_ubatch": case.micro_batch,
        "n_threads": row.threads,
        "threads_asked": case.threads,
        "avg_ts": row.mean,
        "stddev_ts": row.sd,
        "samples_ts": list(row.speeds),
        "avg_ns": times.mean if times else None,
        "stddev_ns": times.sd if times else None,
        "label": row.label,
        "npu_ns": row.npu_ns,
        "npu_label": row.npu_label or None,
        "submits": row.submits,
        "warm": row.warm,
        "partial": row.partial,
        "comparable": row.comparable,
        "reasons": list(row.reasons),
        "model": {name: getattr(model, name) for name in ModelFacts.__slots__},
        "state": None if row.state is None else row.state.as_dict(),
        "version": row.version,
        "commit": row.commit or None,
        "taken_unix_s": row.taken_unix_s,
        "arm": row.arm or None,
        "kernels": row.kernels or None,
        "variables": dict(row.variables),
    }


def parse_row(document: Mapping[str, Any]) -> Row:
    """The row of a document ``row_document`` made.

    Raises:
        InvalidFileError: it is none, or one of another version of this format.
    """
    schema = document.get("schema")
    if schema != ROW_SCHEMA:
        raise InvalidFileError(
            "not a row of benchmark results", why=f"its schema is {schema!r}, this program reads {ROW_SCHEMA}"
        )
    try:
        case = Case(
            int(document["n_prompt"]),
            int(document["n_gen"]),
            int(document["n_batch"]),
            int(document["n_ubatch"]),
            int(document["threads_asked"]),
        )
        state = document["state"]
        return Row(
            case=case,
            model=ModelFacts(**document["model"]),
            label=str(document["label"]),
            speeds=tuple(float(value) for value in document["samples_ts"]),
            warm=bool(document["warm"]),
            partial=bool(document["partial"]),
            state=None if state is None else _state(state),
            reasons=tuple(str(text) for text in document["reasons"]),
            version=str(document["version"]),
            commit=str(document["commit"] or ""),
            taken_unix_s=float(document["taken_unix_s"]),
            threads=int(document["n_threads"]),
            npu_ns=document["npu_ns"],
            npu_label=str(document["npu_label"] or ""),
            submits=document["submits"],
            arm=str(document["arm"] or ""),
            kernels=str(document["kernels"] or ""),
            variables={str(name): str(text) for name, text in document.get("variables", {}).items()},
        )
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise InvalidFileError("a row of benchmark results is damaged", why=str(error)[:200]) from error


def _state(document: Mapping[str, Any]) -> BoardState:
    return BoardState(
        label=str(document["label"]),
        failed=tuple(document["failed"]),
        unknown=tuple(document["unknown"]),
        preflight=document["fit"] is not None,
        governors=dict(document["governors"]),
        clocks=dict(document["clocks_hz"]),
        temperatures=dict(document["temperatures_c"]),
        kernel=str(document["kernel"] or ""),
        board=str(document["board"] or ""),
        resets=document["resets"],
    )
