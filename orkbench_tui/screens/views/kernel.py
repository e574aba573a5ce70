"""Kernel patches on a source tree, and the board's kernels."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from orkbench_tui.ops.kernel.patch_series import Patch
from orkbench_tui.ops.kernel.patch_tree import Finding, State
from orkbench_tui.ops.kernel.status import KernelStatus, status_lines
from orkbench_tui.screens.listing import first_shown
from orkbench_tui.screens.text_line import Line, Span, fit, foreign, line, plain
from orkbench_tui.screens.view_state import ViewState
from orkbench_tui.screens.views.section import title
from orkbench_tui.screens.work.patch_worker import PatchReport

__all__ = ["KernelShown", "kernel_lines", "kernel_spoken"]

_ROLES = {State.APPLIED: "text", State.FITS: "notice"}


@dataclass(frozen=True, slots=True)
class KernelShown:
    """``status`` is text where the board could not say; ``kernels`` shows it instead of the patches, from line ``scroll``."""

    patches: tuple[Patch, ...] = ()
    marked: frozenset[str] = frozenset()
    report: PatchReport | None = None
    status: KernelStatus | str = "reading the board"
    note: str = ""
    kernels: bool = False
    chosen: int = 0
    scroll: int = 0


def kernel_lines(shown: KernelShown, state: ViewState, width: int, height: int) -> list[Line]:
    return (_kernels if shown.kernels else _patches)(shown, state, width, height)


def _kernels(shown: KernelShown, state: ViewState, width: int, height: int) -> list[Line]:
    right = line(("o: patches", "dim"))
    if isinstance(shown.status, str):
        told = [(shown.status, "warning" if shown.status != "reading the board" else "dim")]
    else:
        told = [
            (text, "warning" if text.startswith("note:") else "text") for text in status_lines(shown.status)
        ]
    body: list[Line] = []
    for text, role in told:
        indent = " " * 13 if text[12:13] not in ("", " ") and text[11:12] == " " else "   "
        parts = textwrap.wrap(
            f" {foreign_kept(text)}", width - 1, subsequent_indent=indent, break_on_hyphens=False
        )
        body += [line((part, role)) for part in parts]
    room = max(1, height - 1)
    first = min(shown.scroll, max(0, len(body) - room))
    lines = [title("Kernels of this board", right, width, state.glyphs), *body[first : first + room]]
    if len(body) > first + room:
        lines[-1] = line((f" {first + room - 1} of {len(body)} lines; j, PgDn for the rest", "dim"))
    return lines


def foreign_kept(text: str) -> str:
    """A status line without control characters, its columns kept."""
    return text if text.isprintable() else foreign(text)


def _patches(shown: KernelShown, state: ViewState, width: int, height: int) -> list[Line]:
    glyphs, report = state.glyphs, shown.report
    running = shown.status.facts.running if not isinstance(shown.status, str) else ""
    told = f"running {foreign(running)} {glyphs.dot} " if running else ""
    lines = [title("Kernel patches", line((f"{told}o: kernels", "dim")), width, glyphs)]
    if shown.note:
        lines += [line((f" {part}", "notice")) for part in textwrap.wrap(foreign(shown.note), width - 2)[:3]]
    lines += _tree(report, width)
    if not shown.patches:
        return lines
    found = {one.patch.id: one for one in report.findings} if report is not None else {}
    chosen = shown.patches[shown.chosen]
    details = [
        line((f" {part}", role))
        for text, role in _details(chosen, found.get(chosen.id))
        for part in textwrap.wrap(foreign(text), width - 2)
    ][: max(4, height // 2)]
    room = max(1, height - len(lines) - 1 - len(details))
    start = first_shown(shown.chosen, len(shown.patches), room)
    for index, patch in enumerate(shown.patches[start : start + room], start):
        row = _row(patch, found.get(patch.id), shown, state)
        if index == shown.chosen:
            row = fit((Span(glyphs.cursor + plain(row)[1:], "cursor"),), width, glyphs.cut, "cursor")
        lines.append(row)
    lines += [()] * (height - len(lines) - 1 - len(details))
    return [*lines, title("Chosen", (), width, glyphs), *details]


def _tree(report: PatchReport | None, width: int) -> list[Line]:
    if report is None:
        return [line((" no source tree named: f names one, then c checks what would happen", "dim"))]
    if report.tree is None:
        return [line((f" {part}", "error")) for part in textwrap.wrap(foreign(report.fault), width - 2)[:4]]
    tree = report.tree
    known = "" if tree.variant else ", for which no patch is made"
    said = f"driver {foreign(tree.version)}{known}, in {foreign(str(tree.folder))}"
    return [fit(line((f" {said}", "text")), width)]


def _row(patch: Patch, found: Finding | None, shown: KernelShown, state: ViewState) -> Line:
    glyphs = state.glyphs
    word = "optional" if patch.optional and patch.id not in shown.marked else "-"
    role, mark = "dim", " "
    if patch.id in shown.marked:
        word = "chosen"
    if found is not None:
        word, role = found.state.value, _ROLES.get(found.state, "error")
        mark = (
            glyphs.good if found.state is State.APPLIED else " " if role == "notice" else glyphs.severity[4]
        )
        # A column for the longest of them would leave none to the titles.
        word = "needs whole tree" if found.state is State.NO_TREE else word
    return line(
        (f" {mark}", role), (f"{patch.id:<16}", "value"), (f" {word:<17}", role), (patch.title, "text")
    )


def _details(patch: Patch, found: Finding | None) -> list[tuple[str, str]]:
    told = []
    if found is not None and found.detail:
        told.append((f"{found.state.value}: {found.detail}", "error"))
    told += [(f"why: {patch.purpose}", "text"), (f"risk: {patch.risk}", "warning")]
    if patch.needs:
        told.append((f"needs: {', '.join(patch.needs)}", "text"))
    told.append(
        (f"for drivers {', '.join(patch.files)}{'; optional, x chooses it' if patch.optional else ''}", "dim")
    )
    if patch.note:
        told.append((f"note: {patch.note}", "notice"))
    return [*told, (f"verify: {patch.verify}", "dim"), (f"back: {patch.rollback}", "dim")]


def kernel_spoken(status: KernelStatus, patches: Sequence[Patch]) -> list[str]:
    said = [foreign(text) for text in status_lines(status)]
    said.append("Patches of the series; `ork kernel patches check TREE` tells what each would do to a tree.")
    return [
        *said,
        *[f"{patch.id}{', optional' if patch.optional else ''}: {patch.title}" for patch in patches],
    ]
