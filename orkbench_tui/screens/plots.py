"""Bars and scrolling plots from characters. Pure: values in, strings out."""

from __future__ import annotations

from collections.abc import Sequence

from orkbench_tui.screens.glyphs import Glyphs

__all__ = ["bar", "plot_rows", "spark"]


def bar(fraction: float | None, width: int, glyphs: Glyphs) -> tuple[str, str]:
    """The filled and the empty part of a bar, together ``width`` cells. Unknown is all empty."""
    if fraction is None:
        return "", "?" * 1 + glyphs.empty * (width - 1) if width else ""
    steps = len(glyphs.bar) - 1
    units = round(min(max(fraction, 0.0), 1.0) * width * steps)
    if units == 0 and fraction > 0 and width:
        units = 1
    whole, part = divmod(units, steps)
    filled = glyphs.bar[-1] * whole + (glyphs.bar[part] if part else "")
    return filled, glyphs.empty * (width - len(filled))


def plot_rows(
    values: Sequence[float | None], width: int, height: int, glyphs: Glyphs, top: float = 100.0
) -> list[str]:
    """``height`` strings of ``width`` cells, topmost first; the newest value at the right edge.

    A value that is unknown leaves its column empty; one that is 0 shows the lowest mark in the bottom row, so
    that idle and unknown differ.
    """
    steps = len(glyphs.plot) - 1
    levels: list[int | None] = [None] * max(0, width - len(values))
    for value in values[-width:] if width else ():
        units = None if value is None else round(min(max(value / top, 0.0), 1.0) * height * steps)
        levels.append(None if units is None else max(units, 1))
    rows = []
    for row in range(height - 1, -1, -1):
        floor = row * steps
        rows.append(
            "".join(
                glyphs.plot[min(max(level - floor, 0), steps)] if level is not None else glyphs.plot[0]
                for level in levels
            )
        )
    return rows


def spark(values: Sequence[float | None], glyphs: Glyphs, top: float = 100.0) -> str:
    """One character per value, ``?`` for unknown: for more cores than bars have room."""
    steps = len(glyphs.plot) - 1
    return "".join(
        "?" if value is None else glyphs.plot[max(1, round(min(max(value / top, 0.0), 1.0) * steps))]
        for value in values
    )
