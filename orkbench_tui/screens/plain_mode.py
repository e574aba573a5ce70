"""Pages as lines of labelled text: for screen readers, and for terminals that only print. No boxes, no redrawing."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

from orkbench_tui import locations
from orkbench_tui.errors import OrkError
from orkbench_tui.ops.doctor.checks import run_checks
from orkbench_tui.ops.files import BoardFiles
from orkbench_tui.ops.kernel.patch_series import default_folder, load_series
from orkbench_tui.ops.telemetry.collector import Collector
from orkbench_tui.ops.telemetry.report import status_lines
from orkbench_tui.runner.stored_files import list_files
from orkbench_tui.screens.glyphs import ASCII
from orkbench_tui.screens.keys import PAGES
from orkbench_tui.screens.services import Services
from orkbench_tui.screens.view_state import ViewState
from orkbench_tui.screens.views.bench import bench_spoken
from orkbench_tui.screens.views.cores import cores_spoken
from orkbench_tui.screens.views.doctor import doctor_spoken
from orkbench_tui.screens.views.domains import domains_spoken
from orkbench_tui.screens.views.help import help_spoken
from orkbench_tui.screens.views.kernel import kernel_spoken
from orkbench_tui.screens.views.log_page import log_spoken
from orkbench_tui.screens.views.models import models_spoken
from orkbench_tui.screens.views.operations import OperationsShown, operations_spoken
from orkbench_tui.screens.views.rules import rules_spoken
from orkbench_tui.screens.views.settings import settings_spoken
from orkbench_tui.screens.work.bench_reading import read_bench
from orkbench_tui.screens.work.patch_worker import read_kernel
from orkbench_tui.settings_file import read_settings
from orkbench_tui.upstream_variables import variable_warnings

__all__ = ["PlainPages", "menu_lines"]

_RATE_PAUSE_S = 0.25
_WIDTH = 200


def menu_lines() -> list[str]:
    pages = ", ".join(f"{page.key} {page.title}" for page in PAGES)
    return [f"Pages: {pages}, ? help.", "Enter reads the page again, q leaves."]


class PlainPages:
    """The pages of one board as text. ``page`` may be a key, a title or its beginning."""

    def __init__(self, files: BoardFiles, occupancy_dir: Path, services: Services) -> None:
        self._services = services
        self._collector = Collector(files, occupancy_dir)
        self._collector.sample()
        self._first = True
        self.page = "dashboard"

    def go(self, word: str) -> str:
        """Choose a page; "" or what is wrong with ``word``."""
        wanted = word.strip().lower()
        if wanted in ("?", "help", "h"):
            self.page = "help"
            return ""
        found = [page.name for page in PAGES if wanted in (page.key.lower(), page.title)]
        found = found or [page.name for page in PAGES if page.title.startswith(wanted)]
        if len(found) != 1:
            return f"no page {word!r}; " + menu_lines()[0]
        self.page = found[0]
        return ""

    def lines(self) -> list[str]:
        """The page now. What cannot be read is said in its place."""
        if self._first:
            time.sleep(_RATE_PAUSE_S)
            self._first = False
        reader: dict[str, Callable[[], list[str]]] = {
            "dashboard": lambda: self._sampled(
                lambda state: status_lines(state.sample, _WIDTH) if state.sample else []
            ),
            "cores": lambda: self._sampled(cores_spoken),
            "domains": lambda: self._sampled(domains_spoken),
            "log": lambda: self._sampled(log_spoken),
            "operations": lambda: operations_spoken(OperationsShown()),
            "models": lambda: models_spoken(
                list_files(self._services.models_dir, self._services.packs_dir), ""
            ),
            "chat": lambda: ["The chat as text is `ork run chat`; it keeps to lines by itself."],
            "doctor": lambda: doctor_spoken(run_checks(self._services.preflight()), ""),
            "bench": lambda: bench_spoken(read_bench(self._services)),
            "rules": rules_spoken,
            "kernel": lambda: kernel_spoken(
                read_kernel(self._services), load_series(default_folder()).patches
            ),
            "settings": lambda: settings_spoken(
                read_settings(locations.config_file(), os.environ), variable_warnings(os.environ)
            ),
            "help": lambda: [*menu_lines(), *help_spoken(ViewState(glyphs=ASCII))],
        }
        title = next((page.title for page in PAGES if page.name == self.page), self.page)
        try:
            return [f"Page {title}.", *reader[self.page]()]
        except OrkError as error:
            return [f"Page {title}.", error.line()]
        except OSError as error:
            return [f"Page {title}.", f"the board does not answer: {error.strerror or error}"]

    def _sampled(self, view: Callable[[ViewState], list[str]]) -> list[str]:
        return view(ViewState(sample=self._collector.sample(), glyphs=ASCII))
