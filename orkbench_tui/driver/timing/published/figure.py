"""One published figure: measured by the authors of the roadmap on their board, never by this project."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["ROADMAP", "STUDY", "Figure", "rows"]

ROADMAP = "optimization roadmap"
STUDY = "prefill utilisation study"


@dataclass(frozen=True, slots=True)
class Figure:
    """``id`` is the row of the published results; ``label`` tells its figures apart."""

    id: str
    label: str
    value: float
    unit: str
    source: str
    configuration: str

    def __post_init__(self) -> None:
        if not self.source or not self.configuration:
            raise ValueError(f"{self.id} {self.label} does not say where it is from")

    @property
    def key(self) -> str:
        return f"{self.id} {self.label}"


def rows(
    id: str,
    where: str,
    configuration: str,
    unit: str,
    figures: Mapping[str, float],
    *,
    document: str = ROADMAP,
) -> list[Figure]:
    """The figures of one row, which share all but label and value."""
    source = f"{document}, {where}"
    return [Figure(id, label, value, unit, source, configuration) for label, value in figures.items()]
