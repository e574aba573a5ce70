"""The title line every panel begins with."""

from __future__ import annotations

from collections.abc import Sequence

from orkbench_tui.screens.glyphs import Glyphs
from orkbench_tui.screens.text_line import Line, Span, fit, width_of

__all__ = ["panel", "title"]


def title(name: str, right: Sequence[Span], width: int, glyphs: Glyphs) -> Line:
    """``── Name ───────── right ──``; what does not fit on the right is cut."""
    head = (Span(glyphs.rule * 2 + " ", "rule"), Span(name, "title"), Span(" ", "rule"))
    room = width - width_of(head) - 5
    tail: Line = ()
    if right and room > 4:
        text = tuple(right) if width_of(right) <= room else fit(right, room, glyphs.cut, "dim")
        tail = (Span(" ", "rule"), *text, Span(" " + glyphs.rule, "rule"))
    filler = width - width_of(head) - width_of(tail)
    return fit((*head, Span(glyphs.rule * max(filler, 0), "rule"), *tail), width, glyphs.cut)


def panel(head: Line, body: Sequence[Line], width: int, height: int, glyphs: Glyphs) -> list[Line]:
    """Exactly ``height`` lines of exactly ``width`` cells."""
    lines = [head, *body][:height]
    lines += [()] * (height - len(lines))
    return [fit(item, width, glyphs.cut) for item in lines]
