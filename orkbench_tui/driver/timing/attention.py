"""Decode attention on the NPU against the CPU, by context length.

The published points do not lie on one pair of lines, so between them the ratio is read off straight
lines, and beyond them the last slope goes on.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from orkbench_tui.driver.timing.constants import value

__all__ = ["RESIDENT_POINTS", "STREAMED_POINTS", "attention_gain", "cpu_attention_ns"]

Points = Sequence[tuple[int, float]]

STREAMED_POINTS: Points = ((512, 1.0), (1024, 2.6), (2048, 4.2))
"""Context length and CPU time over NPU time with keys and values as the chain reads them (RES-46)."""

RESIDENT_POINTS: Points = ((512, 1.88), (1024, 3.40), (2048, 7.32))
"""The same with keys and values resident in tiles (RES-47)."""


def attention_gain(context: int, *, resident: bool) -> float:
    """CPU time over NPU time of one decode step's attention; never below 0."""
    points = RESIDENT_POINTS if resident else STREAMED_POINTS
    pairs = list(pairwise(points))
    (x0, y0), (x1, y1) = next((pair for pair in pairs if context <= pair[1][0]), pairs[-1])
    return max(0.0, y0 + (y1 - y0) * (context - x0) / (x1 - x0))


def cpu_attention_ns(layers: int, width: int, tokens: int, before: int = 0) -> float:
    """Scores and weighted values of ``tokens`` new tokens after ``before``, in all layers, on four A76."""
    seen = tokens * before + tokens * (tokens + 1) / 2
    return 2 * layers * width * seen / value("cpu_attention")
