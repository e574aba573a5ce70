"""Lines of styled text, measured in terminal cells. Views make them, widgets draw them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rich.cells import cell_len, set_cell_size

from orkbench_tui.plain_text import printable

__all__ = [
    "BLANK",
    "Line",
    "Span",
    "beside",
    "dimmed",
    "fit",
    "foreign",
    "in_ascii",
    "join",
    "line",
    "plain",
    "width_of",
]


class Span(NamedTuple):
    """``role`` names what the text is (see palette.py), not how it looks."""

    text: str
    role: str = "text"


Line = tuple[Span, ...]

BLANK: Line = ()


def line(*parts: Span | str | tuple[str, str]) -> Line:
    return tuple(Span(part) if isinstance(part, str) else Span(*part) for part in parts)


def foreign(text: str) -> str:
    """Text from logs, files or other programs, on one line and without control characters."""
    return printable(" ".join(text.split()))


_PLAIN = str.maketrans(
    {"°": " ", "×": "x", "→": ">", "…": "~", "≥": ">", "–": "-", "—": "-", "’": "'", "·": "-"}
)


def in_ascii(spans: Sequence[Span]) -> Line:
    """The same cells in ASCII, for terminals that have nothing else: what has no likeness becomes ``?``."""
    return tuple(span if span.text.isascii() else Span(_ascii(span.text), span.role) for span in spans)


def _ascii(text: str) -> str:
    near = text.translate(_PLAIN)
    return "".join(c if c.isascii() else "?" * cell_len(c) for c in near)


def dimmed(spans: Sequence[Span]) -> Line:
    return tuple(Span(span.text, "dim") for span in spans)


def width_of(spans: Sequence[Span]) -> int:
    return sum(cell_len(span.text) for span in spans)


def plain(spans: Sequence[Span]) -> str:
    return "".join(span.text for span in spans)


def fit(spans: Sequence[Span], width: int, cut: str = "…", role: str = "text") -> Line:
    """Exactly ``width`` cells: cut with a mark, or padded. A wide character is never cut in half."""
    total = width_of(spans)
    if total <= width:
        return (*spans, Span(" " * (width - total), role)) if total < width else tuple(spans)
    if width <= 0:
        return ()
    room = width - cell_len(cut)
    result: list[Span] = []
    for span in spans:
        size = cell_len(span.text)
        if size > room:
            result.append(Span(set_cell_size(span.text, max(room, 0)) + cut, span.role))
            break
        result.append(span)
        room -= size
    return tuple(result)


def join(lines: Sequence[Line], separator: Span) -> Line:
    result: list[Span] = []
    for index, item in enumerate(lines):
        if index:
            result.append(separator)
        result.extend(item)
    return tuple(result)


def beside(
    left: Sequence[Span], right: Sequence[Span], width: int, cut: str = "…", role: str = "text"
) -> Line:
    """``left`` and ``right`` at the two ends of ``width`` cells; the left one gives way."""
    right_width = min(width_of(right), width)
    head = fit(left, max(width - right_width - 1, 0), cut, role)
    return fit((*head, Span(" " * (width - right_width - width_of(head)), role), *right), width, cut, role)
