"""The published results as data: every figure with unit, source and configuration."""

from __future__ import annotations

from orkbench_tui.driver.timing.published import matmul, models, quality
from orkbench_tui.driver.timing.published.figure import Figure

__all__ = ["PUBLISHED", "Figure", "figure"]

PUBLISHED: tuple[Figure, ...] = tuple(
    sorted((*matmul.FIGURES, *models.FIGURES, *quality.FIGURES), key=lambda row: row.id)
)

_BY_KEY = {row.key: row for row in PUBLISHED}


def figure(key: str) -> Figure:
    """The figure of a key such as ``RES-41 doorbell 1x512x512``; KeyError when there is none."""
    return _BY_KEY[key]
