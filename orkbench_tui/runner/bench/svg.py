"""Small charts as SVG text, for reports that must not load anything."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape as _escape

from orkbench_tui.plain_text import printable

__all__ = ["bar_chart", "line_chart"]

_WIDTH = 720
_COLOURS = ("#2b6cb0", "#c05621", "#2f855a", "#6b46c1", "#718096")


def escape(text: str) -> str:
    """Foreign text, harmless in markup and in a terminal."""
    return _escape(printable(text))


def _frame(height: int, title: str, body: Sequence[str]) -> str:
    return (
        f'<svg viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{escape(title)}" '
        f'font-family="sans-serif" font-size="12">{"".join(body)}</svg>'
    )


def bar_chart(title: str, labels: Sequence[str], values: Sequence[float | None]) -> str:
    """One horizontal bar a label; a value of None is written as unknown."""
    top = max((value for value in values if value is not None), default=0) or 1
    parts = []
    for index, (label, value) in enumerate(zip(labels, values, strict=True)):
        y = 20 + 22 * index
        parts.append(f'<text x="228" y="{y + 12}" text-anchor="end">{escape(label)}</text>')
        if value is None:
            parts.append(f'<text x="236" y="{y + 12}" fill="#718096">unknown</text>')
            continue
        width = 400 * value / top
        parts.append(f'<rect x="236" y="{y}" width="{width:.1f}" height="15" fill="{_COLOURS[0]}"/>')
        parts.append(f'<text x="{240 + width:.1f}" y="{y + 12}">{value:.4g}</text>')
    return _frame(30 + 22 * len(labels), title, parts)


def line_chart(title: str, series: Sequence[tuple[str, Sequence[tuple[float, float]]]]) -> str:
    """Lines through (x, y) points, all in one frame that begins at 0; "" when there is no point."""
    points = [point for _, line in series for point in line]
    if not points:
        return ""
    left, right = min(x for x, _ in points), max(x for x, _ in points)
    top = max(y for _, y in points) or 1

    def place(x: float, y: float) -> str:
        across = (x - left) / (right - left) if right > left else 0.5
        return f"{50 + 640 * across:.1f},{210 - 180 * y / top:.1f}"

    parts = ['<line x1="50" y1="210" x2="690" y2="210" stroke="#a0aec0"/>']
    parts.append(f'<text x="44" y="34" text-anchor="end">{top:.4g}</text>')
    parts.append('<text x="44" y="214" text-anchor="end">0</text>')
    for index, (name, line) in enumerate(series):
        colour = _COLOURS[index % len(_COLOURS)]
        joined = " ".join(place(x, y) for x, y in line)
        if len(line) > 1:
            parts.append(f'<polyline points="{joined}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
        parts += [
            f'<circle cx="{spot.split(",")[0]}" cy="{spot.split(",")[1]}" r="2.5" fill="{colour}"/>'
            for spot in joined.split()
        ]
        parts.append(f'<text x="{50 + 150 * (index % 4)}" y="{234 + 16 * (index // 4)}" fill="{colour}">')
        parts.append(f"{escape(name)}</text>")
    return _frame(240 + 16 * (len(series) // 4), title, parts)
