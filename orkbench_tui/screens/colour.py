"""Screens without colour: weight, underline and reverse stay, colour codes never leave the program."""

from __future__ import annotations

from functools import lru_cache

from rich.segment import Segment
from rich.style import Style
from textual.color import Color
from textual.filter import LineFilter

__all__ = ["WithoutColour"]


@lru_cache(1024)
def _bare(style: Style) -> Style:
    return Style(
        bold=style.bold,
        dim=style.dim,
        italic=style.italic,
        underline=style.underline,
        reverse=style.reverse,
        strike=style.strike,
    )


class WithoutColour(LineFilter):
    """Textual's own filter turns colours to grey, which is still colour to NO_COLOR."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        return [
            Segment(text, None if style is None else _bare(style), control)
            for text, style, control in segments
        ]
