"""Own, predicted and published figures side by side, each with its label."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from orkbench_tui.driver.soc import Soc
from orkbench_tui.driver.timing.published import figure
from orkbench_tui.driver.timing.shapes import REFERENCE_MODELS, ModelShape
from orkbench_tui.runner.bench.cases import Case
from orkbench_tui.runner.bench.predict import predicted_speed
from orkbench_tui.runner.bench.record import Row

__all__ = ["SideBySide", "against_lines", "against_published"]


@dataclass(frozen=True, slots=True)
class SideBySide:
    """Tokens per second of one test of one model; None where nobody has that figure.

    ``predicted`` is at the CPU's effective weight rate, ``ceiling`` at the memory's for tests that make tokens.
    """

    model: str
    test: str
    own: float | None
    own_label: str
    predicted: float | None
    published: float | None
    source: str
    ceiling: float | None = None


# model, prompt, generate, published figure
_REFERENCES = (
    ("qwen3-1.7b", 512, 0, "RES-02 prefill"),
    ("qwen3-1.7b", 0, 128, "RES-02 decode"),
    ("qwen3-1.7b", 512, 0, "RES-01 prefill"),
    ("qwen3-1.7b", 0, 128, "RES-01 decode"),
    ("qwen2.5-7b", 512, 0, "RES-77 pp512"),
    ("qwen2.5-7b", 256, 0, "RES-77 pp256"),
    ("qwen2.5-7b", 0, 128, "RES-77 decode"),
    ("qwen2.5-7b", 163, 0, "RES-78 163 tokens"),
    ("qwen3-0.6b", 0, 128, "RES-75 CPU decode"),
)


def against_published(rows: Sequence[Row], shape: ModelShape, soc: Soc) -> list[SideBySide]:
    """Own rows with what a board is predicted to do, then the published ones with the same prediction."""
    found = [
        SideBySide(
            row.model.name,
            row.case.test,
            row.mean,
            row.label,
            predicted_speed(shape, row.case, soc),
            None,
            "nobody has published this model",
            _ceiling(shape, row.case, soc),
        )
        for row in rows
        if row.label != "predicted"
    ]
    for name, prompt, generate, key in _REFERENCES:
        case, published = Case(prompt, generate, 512, 512, 4), figure(key)
        found.append(
            SideBySide(
                name,
                case.test,
                None,
                "",
                predicted_speed(REFERENCE_MODELS[name], case, soc),
                published.value,
                f"{published.id}: {published.configuration}",
                _ceiling(REFERENCE_MODELS[name], case, soc),
            )
        )
    return found


def _ceiling(shape: ModelShape, case: Case, soc: Soc) -> float | None:
    return predicted_speed(shape, case, soc, best=True) if case.generate else None


def against_lines(rows: Sequence[SideBySide]) -> list[str]:
    head = "{:<24} {:>14} {:>16} {:>15} {:>11}  {}"
    lines = [head.format("model", "test", "own t/s", "predicted", "published", "published by")]
    for row in rows:
        own = "-" if row.own is None else f"{row.own:.2f} {row.own_label}"
        lines.append(
            head.format(row.model[:24], row.test, own, _range(row), _number(row.published), row.source)
        )
    return lines


def _range(row: SideBySide) -> str:
    """``5.46 to 12.73`` where the rate weights stream at is known only between two published figures."""
    if row.predicted is None or row.ceiling is None:
        return _number(row.predicted)
    return f"{row.predicted:.2f} to {row.ceiling:.2f}"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
