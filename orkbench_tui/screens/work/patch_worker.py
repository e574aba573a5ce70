"""Reads kernels and checks or applies patches off the screen's thread."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from orkbench_tui.ops.kernel.patch_series import Patch, Series, default_folder, load_series
from orkbench_tui.ops.kernel.patch_tree import Finding, State, Tree, apply_patches, check_patches, find_tree
from orkbench_tui.ops.kernel.status import KernelStatus, kernel_status
from orkbench_tui.screens.services import Services
from orkbench_tui.screens.work.background import Post, ended, start

__all__ = ["PatchReport", "PatchWorker", "chosen_patches", "read_kernel"]


_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class PatchReport:
    """What a check or an application found. ``fault`` is why there is nothing; ``applied`` after an application."""

    tree: Tree | None = None
    findings: tuple[Finding, ...] = ()
    applied: bool = False
    fault: str = ""

    @property
    def fits(self) -> tuple[Finding, ...]:
        return tuple(one for one in self.findings if one.state is State.FITS)

    @property
    def stuck(self) -> tuple[Finding, ...]:
        return tuple(one for one in self.findings if one.state not in (State.FITS, State.APPLIED))


def chosen_patches(series: Series, marked: frozenset[str], variant: str) -> tuple[Patch, ...]:
    """The usual patches of a variant, and the optional ones that were marked with what they need."""
    usual = tuple(patch.id for patch in series.chosen((), variant))
    return series.chosen((*usual, *sorted(marked)), variant) if marked else series.chosen((), variant)


def read_kernel(services: Services) -> KernelStatus:
    """Running and installed kernels of the board. Raises OrkError."""
    with services.guarded(lambda text: None, lambda step: step()) as (_, board):
        return kernel_status(board)


class PatchWorker:
    """One thing at a time; ``busy`` names it, "" for nothing."""

    def __init__(self, services: Services, post: Post) -> None:
        self._services, self._post = services, post
        self.busy = ""

    def series(self, done: Callable[[Series | str], None]) -> None:
        self._start("reading the series", lambda: load_series(default_folder()), done)

    def status(self, done: Callable[[KernelStatus | str], None]) -> None:
        """The board is asked beside everything else: it may be slow, and a tree does not need it."""

        def work() -> None:
            found: KernelStatus | str = ended(lambda: read_kernel(self._services), str)
            self._post(lambda: done(found))

        start("kernel status", work)

    def check(
        self, folder: Path, series: Series, marked: frozenset[str], done: Callable[[PatchReport], None]
    ) -> None:
        """The dry run: what each patch would do. The tree is only read."""

        def work() -> PatchReport:
            tree = find_tree(folder, series)
            found = check_patches(tree, series, chosen_patches(series, marked, tree.variant))
            return PatchReport(tree, tuple(found))

        self._start("checking", work, lambda found: done(_report(found)))

    def apply(
        self, tree: Tree, series: Series, patches: tuple[Patch, ...], done: Callable[[PatchReport], None]
    ) -> None:
        """All of it or nothing. Only after it was confirmed."""

        def work() -> PatchReport:
            return PatchReport(tree, tuple(apply_patches(tree, series, patches)), applied=True)

        self._start("applying", work, lambda found: done(_report(found)))

    def _start(self, name: str, work: Callable[[], _T], done: Callable[[_T | str], None]) -> None:
        self.busy = name

        def run() -> None:
            found: _T | str = ended(work, str)
            self._post(lambda: self._ended(found, done))

        start(f"kernel {name}", run)

    def _ended(self, found: _T | str, done: Callable[[_T | str], None]) -> None:
        self.busy = ""
        done(found)


def _report(found: PatchReport | str) -> PatchReport:
    return PatchReport(fault=found) if isinstance(found, str) else found
