"""Character plots for standard output. The only module that knows the plotting library."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["bars", "lines"]

_WIDTH = 72


def bars(title: str, labels: Sequence[str], values: Sequence[float]) -> list[str]:
    """One horizontal bar for each label, the first on top; no colours, no trailing space."""
    import plotext

    plotext.clear_figure()
    plotext.theme("clear")
    plotext.plotsize(_WIDTH, 2 * len(values) + 4)
    plotext.title(title)
    # The library draws upwards.
    plotext.bar(list(labels)[::-1], list(values)[::-1], orientation="horizontal", width=0.3)
    lines = plotext.uncolorize(plotext.build()).splitlines()
    return [line.rstrip() for line in lines if line.strip()]


def lines(title: str, series: Sequence[tuple[str, Sequence[tuple[float, float]]]]) -> list[str]:
    """Lines through (x, y) points, from 0 upwards, with a legend; no colours, no trailing space."""
    import plotext

    plotext.clear_figure()
    plotext.theme("clear")
    plotext.plotsize(_WIDTH, 16)
    plotext.title(title)
    markers = ("dot", "x", "o", "+", "*")
    for index, (name, points) in enumerate(series):
        xs, ys = [x for x, _ in points], [y for _, y in points]
        plotext.plot(xs, ys, label=name, marker=markers[index % len(markers)])
    top = max((y for _, points in series for _, y in points), default=1.0)
    plotext.ylim(0, top * 1.05 or 1.0)
    text = plotext.uncolorize(plotext.build()).splitlines()
    return [line.rstrip() for line in text if line.strip()]
