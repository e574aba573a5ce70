"""Runs a probe: warns of what is closed, tries the control, asks, and lets the control decide what counts."""

from __future__ import annotations

from dataclasses import replace

from orkbench_tui.driver.guards import warning
from orkbench_tui.driver.timing.hypotheses import closed
from orkbench_tui.errors import RefusedError
from orkbench_tui.ops.probes.declaration import Answer, Bench, Probe, Result, Verdict

__all__ = ["ask", "closed_warnings", "require_consent"]


def closed_warnings(probe: Probe) -> list[str]:
    """One line for each settled hypothesis the probe touches, with the evidence."""
    lines = []
    for name in probe.closed:
        hypothesis = closed(name)
        seen = f"{hypothesis.name}: {hypothesis.claim}: no, {hypothesis.evidence} ({hypothesis.source})"
        lines.append(warning("GRD-57", seen=seen))
    return lines


def require_consent(probe: Probe, bench: Bench, *, consent: bool) -> None:
    """Raises:
    RefusedError: the probe may harm a board, this is one, and nobody said yes.
    """
    if probe.harm and bench.on_board and not consent:
        raise RefusedError(
            f"probe {probe.name} may disturb the board",
            why=probe.harm,
            do="run it with --consent on a board of yours",
        )


def ask(probe: Probe, bench: Bench, *, consent: bool = False) -> Result:
    """The probe's answer. A control that fails leaves it inconclusive, and the question is not asked.

    Raises:
        RefusedError: it may harm the board.
        OrkError: the NPU failed.
    """
    require_consent(probe, bench, consent=consent)
    warnings = tuple(closed_warnings(probe))
    control = probe.control(bench)
    if not control.ok:
        why = f"the control did not show what it must: {control.seen}"
        return Result(probe, control, Answer(Verdict.INCONCLUSIVE, why), warnings)
    return Result(probe, control, _sane(probe.ask(bench)), warnings)


def _sane(answer: Answer) -> Answer:
    """A figure that is no number is unknown."""
    figures = tuple(
        f
        if f.value is None or (f.value == f.value and abs(f.value) != float("inf"))
        else replace(f, value=None)
        for f in answer.figures
    )
    return replace(answer, figures=figures)
