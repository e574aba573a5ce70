"""Kernel: patches checked against a source tree, applied only after a dry run and a typed word; the board's kernels."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from orkbench_tui.ops.kernel.patch_series import Series
from orkbench_tui.ops.kernel.status import KernelStatus
from orkbench_tui.plural import counted
from orkbench_tui.screens.listing import moved
from orkbench_tui.screens.page import Page, bindings_for
from orkbench_tui.screens.text_line import Line
from orkbench_tui.screens.view_state import ViewState
from orkbench_tui.screens.views.kernel import KernelShown, kernel_lines
from orkbench_tui.screens.work.patch_worker import PatchReport, PatchWorker

__all__ = ["KernelScreen"]

_CONFIRM = "y"
_LINES = 500


class KernelScreen(Page):
    """Reads the series and the board when it is shown. The tree is named by hand."""

    where = "kernel"
    BINDINGS = bindings_for("kernel")

    def __init__(self, worker: PatchWorker) -> None:
        super().__init__()
        self._worker = worker
        self._series: Series | None = None
        self._folder: Path | None = None
        self._shown = KernelShown()
        self._asked: PatchReport | None = None
        self._said = ""

    def on_screen_resume(self) -> None:
        if self._series is None and not self._worker.busy:
            self._worker.series(self._loaded)
        self._worker.status(self._known)

    def lines(self, state: ViewState, width: int, height: int) -> list[Line]:
        return kernel_lines(self._shown, state, width, height)

    def said(self) -> str:
        return f"{self._worker.busy} …" if self._worker.busy else self._said

    def _change(self, said: str = "", **changes: object) -> None:
        self._said = said
        self._shown = dataclasses.replace(self._shown, **changes)  # type: ignore[arg-type]
        self.redraw()

    # what the worker tells

    def _loaded(self, found: Series | str) -> None:
        if isinstance(found, str):
            self._change(note=found)
            return
        self._series = found
        self._change(patches=found.patches)

    def _known(self, found: KernelStatus | str) -> None:
        self._change(self._said, status=found)

    def _checked(self, report: PatchReport) -> None:
        self._change(_verdict(report), report=report)

    def _ready(self, report: PatchReport) -> None:
        """The dry run before an application."""
        self._checked(report)
        if report.tree is None or report.stuck or not report.fits:
            return
        self._asked = report
        many = counted(len(report.fits), "patch", "patches")
        self.edit(f" apply {many} to the tree? type {_CONFIRM} and enter: ")

    # keys

    def action_move(self, step: int) -> None:
        if self._shown.kernels:
            self._change(scroll=min(max(0, self._shown.scroll + step), _LINES))
        else:
            self._change(chosen=moved(self._shown.chosen, step, len(self._shown.patches)))

    def action_move_page(self, direction: int) -> None:
        self.action_move(direction * max(1, self.room // 2))

    def action_move_end(self, direction: int) -> None:
        self.action_move(direction * _LINES)

    def action_other(self) -> None:
        self._change(kernels=not self._shown.kernels, scroll=0)

    def action_mark(self) -> None:
        if not self._shown.patches or self._shown.kernels:
            return
        patch = self._shown.patches[self._shown.chosen]
        if not patch.optional:
            self._change(f"{patch.id} is part of the series")
            return
        self._change(
            f"c checks the tree with{'out' if patch.id in self._shown.marked else ''} {patch.id}",
            marked=self._shown.marked ^ {patch.id},
            report=None
            if self._shown.report is None
            else PatchReport(fault="not checked since the choice changed: c"),
        )

    def action_tree(self) -> None:
        self._shown = dataclasses.replace(self._shown, kernels=False)
        self.edit(" folder of the sources: ", str(self._folder or ""))

    def action_check(self) -> None:
        if self._idle() and self._series is not None and self._folder is not None:
            self._said = ""
            self._worker.check(self._folder, self._series, self._shown.marked, self._checked)
            self._change(kernels=False)

    def action_apply(self) -> None:
        if self._idle() and self._series is not None and self._folder is not None:
            self._worker.check(self._folder, self._series, self._shown.marked, self._ready)
            self._change(kernels=False)

    def _idle(self) -> bool:
        if self._worker.busy:
            return False
        if self._series is None:
            self._change("there is no series of patches")
            return False
        if self._folder is None:
            self._change("f names the folder of a kernel's sources first")
            return False
        return True

    # the typed line

    def entered(self, text: str) -> None:
        asked, self._asked = self._asked, None
        if asked is None:
            if text.strip():
                self._folder = Path(text.strip()).expanduser()
                self.action_check()
        elif text.strip() != _CONFIRM:
            self._change(f"not confirmed: {_CONFIRM} was to be typed; nothing was changed")
        elif asked.tree is not None and self._series is not None:
            patches = tuple(one.patch for one in asked.findings)
            self._worker.apply(asked.tree, self._series, patches, self._checked)
            self._change()

    def abandoned(self) -> None:
        if self._asked is not None:
            self._asked = None
            self._change("not confirmed; nothing was changed")


def _verdict(report: PatchReport) -> str:
    if report.tree is None:
        return "nothing was changed; why stands above"
    if not report.findings:
        return f"no patch is made for driver {report.tree.version}"
    if report.stuck:
        return f"{len(report.stuck)} of {len(report.findings)} patches do not fit; nothing is applied"
    if report.applied:
        return "applied; `ork kernel patches build` makes a kernel of it"
    if not report.fits:
        return "the tree has all of them already"
    return (
        f"{len(report.fits)} would be applied, {len(report.findings) - len(report.fits)} are; a applies them"
    )
