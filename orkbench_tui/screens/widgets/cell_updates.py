"""Partial updates that send only the cells that changed.

Textual's own send a widget's row from its left edge up to the change: a clock at the right end of a line then costs
the whole line every second. This is the one place that leans on Textual's inside; a test counts the bytes.
"""

from __future__ import annotations

from rich.console import Console
from rich.control import Control
from textual._compositor import ChopsUpdate, Compositor

__all__ = ["CellCompositor"]


class _CellUpdate(ChopsUpdate):
    def render_segments(self, console: Console) -> str:
        parts: list[str] = []
        for y, first, last in self.spans:
            for end, (x, strip) in zip(self.chop_ends[y], self.chops[y].items(), strict=False):
                left, right = max(x, first), min(end, last)
                if strip is not None and left < right:
                    parts.append(Control.move_to(left, y).segment.text)
                    parts.append(strip.crop(left - x, right - x).render(console))
        return "".join(parts)


class CellCompositor(Compositor):
    """A screen's compositor with smaller updates; what is drawn is the same."""

    def render_partial_update(self) -> ChopsUpdate | None:
        update = super().render_partial_update()
        return None if update is None else _CellUpdate(update.chops, update.spans, update.chop_ends)
