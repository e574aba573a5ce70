"""Character plots for standard output. The only module that knows the plotting library."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["bars"]

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
