"""Model files and weight packs: size, quantization, whether the bytes were checked."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from rich.cells import cell_len

from orkbench_tui.ops.telemetry.wording import byte_size
from orkbench_tui.runner.stored_files import Listed
from orkbench_tui.screens.listing import first_shown
from orkbench_tui.screens.text_line import Line, Span, fit, foreign, line, plain
from orkbench_tui.screens.view_state import ViewState
from orkbench_tui.screens.views.section import title

__all__ = ["models_lines", "models_spoken"]

_ROLE = {
    "verified": "text",
    "not checked": "notice",
    "damaged": "error",
    "not usable": "warning",
    "partial": "warning",
    "not here": "dim",
}
_MARK = {"not checked": 2, "damaged": 4, "not usable": 3, "partial": 3, "not here": 0}
_NEXT = {
    "verified": "enter talks with it",
    "not checked": "v reads it whole and checks it",
    "partial": "`ork model pull {name}` goes on with the download; enter does so too",
    "not here": "`ork model pull {name}` gets it; enter does so too",
}
_DETAILS = 5
_NAME_END = 12


def models_lines(
    rows: Sequence[Listed], note: str, chosen: int, state: ViewState, width: int, height: int
) -> list[Line]:
    glyphs = state.glyphs
    here = [row for row in rows if row.bytes is not None]
    right = line((f"{len(here)} here, {byte_size(sum(row.bytes or 0 for row in here))}", "dim"))
    lines = [title("Models and packs", right, width, glyphs)]
    if not rows:
        return [*lines, line((" reading the folders" if not note else f" {note}", "dim"))]
    name_width = min(max((len(_name(row)) for row in rows), default=20), max(14, width - 46))
    room = max(1, height - 2 - _DETAILS)
    start = first_shown(chosen, len(rows), room)
    for index, row in enumerate(rows[start : start + room], start):
        lines.append(_row(row, index == chosen, name_width, state, width))
    lines += [()] * (height - 1 - _DETAILS - len(lines))
    lines.append(title("Chosen", (), width, glyphs))
    return lines + _details(rows[min(chosen, len(rows) - 1)], note, width)


def _name(row: Listed) -> str:
    """Without the ending all packs have."""
    return foreign(row.name.removesuffix(".orkpack") if row.kind == "pack" else row.name)


def _cut_before_end(name: str, width: int, cut: str) -> Line:
    """Packs of one model differ in the end of their names alone, which therefore stays."""
    if cell_len(name) <= width:
        return fit((Span(name, "value"),), width, cut)
    end = name[-min(_NAME_END, width // 2) :]
    return fit((*fit((Span(name, "value"),), width - cell_len(end), cut), Span(end, "value")), width, cut)


def _row(row: Listed, chosen: bool, name_width: int, state: ViewState, width: int) -> Line:
    glyphs = state.glyphs
    role = _ROLE[row.state]
    mark = glyphs.good if row.state == "verified" else glyphs.severity[_MARK[row.state]]
    spans = (
        Span(f" {row.kind:<6}", "dim"),
        *_cut_before_end(_name(row), name_width, glyphs.cut),
        Span(f" {byte_size(row.bytes) if row.bytes is not None else '-':>9}", "text"),
        Span(f"  {row.quant or '?':<12}", "text"),
        Span(f" {mark} {row.state}", role),
    )
    if not chosen:
        return spans
    return fit((Span(glyphs.cursor + plain(spans)[1:], "cursor"),), width, glyphs.cut, "cursor")


def _details(row: Listed, note: str, width: int) -> list[Line]:
    told = [(str(row.path), "text"), (row.detail, "dim")]
    step = (
        "rm takes it away; it is made again by itself when it is used"
        if row.kind == "pack"
        else "`ork model pull {name}` gets it again"
    )
    told.append(((_NEXT.get(row.state) or step).format(name=row.name), "notice"))
    if note:
        told.append((note, "value"))
    lines = [
        line((f" {part}", role))
        for text, role in told
        for part in textwrap.wrap(foreign(text), width - 2, break_on_hyphens=False)
    ]
    return (lines + [()] * _DETAILS)[:_DETAILS]


def models_spoken(rows: Sequence[Listed], note: str) -> list[str]:
    said = [note] if note else []
    for row in rows:
        size = byte_size(row.bytes) if row.bytes is not None else "not here"
        said.append(
            f"{row.kind} {foreign(row.name)}: {size}, {row.quant or 'quantization not told'}, {row.state}; {foreign(row.detail)}"
        )
    return said or ["No models or packs."]
