"""What a board would do, as rows like those of a run. Nothing is opened and nothing runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from orkbench_tui.driver.soc import Soc
from orkbench_tui.driver.timing import models, transfers
from orkbench_tui.driver.timing.shapes import ModelShape
from orkbench_tui.runner.bench.cases import Case
from orkbench_tui.runner.bench.record import ModelFacts, Row

__all__ = ["ASSUMPTION", "predicted_row", "predicted_rows", "predicted_speed"]

ASSUMPTION = (
    "predicted for the published serial path, int8 on {soc}: prompts on the NPU, single tokens on four A76 at "
    "their effective weight rate of 9.4 GB/s (published too: up to 21.9 GB/s, 2.3 times as fast)"
)


def predicted_speed(
    shape: ModelShape, case: Case, soc: Soc, *, bytes_per_weight: float = 1.0, best: bool = False
) -> float:
    """Tokens per second of a case on ``soc``.

    Args:
        bytes_per_weight: of the format single tokens stream, scales included.
        best: single tokens stream weights at the memory's ceiling, not at the CPU's effective rate.
    """
    time = 0.0
    if case.prompt:
        time += models.prefill(shape, case.prompt, batch=case.piece, soc=soc).total
    for made in range(case.generate):
        token = models.decode(shape, bytes_per_weight=bytes_per_weight, context=case.prompt + made)
        time += token.best if best else token.typical
    return case.tokens / time * 1e9


def predicted_row(
    shape: ModelShape, facts: ModelFacts, case: Case, soc: Soc, *, version: str, now: float
) -> Row:
    """One case; loading counts the int8 layers, cold."""
    load_s = transfers.load_ns(shape.layer_weights, domains=_domains(shape, soc)) / 1e9
    npu = models.prefill(shape, case.prompt, batch=case.piece, soc=soc).hardware if case.prompt else None
    return Row(
        case=case,
        model=replace(facts, load_s=load_s, path="npu"),
        label="predicted",
        speeds=(predicted_speed(shape, case, soc),),
        warm=True,
        partial=False,
        state=None,
        reasons=("predicted, not run",),
        version=version,
        commit="",
        taken_unix_s=now,
        threads=case.threads or 4,
        npu_ns=npu,
        npu_label="predicted" if npu is not None else "",
    )


def predicted_rows(
    shape: ModelShape, facts: ModelFacts, cases: Sequence[Case], soc: Soc, *, version: str, now: float
) -> list[Row]:
    return [predicted_row(shape, facts, case, soc, version=version, now=now) for case in cases]


def _domains(shape: ModelShape, soc: Soc) -> int:
    return -(-shape.layer_weights // soc.iova_guard_bytes)
