"""Pages as lines of labelled text: for screen readers, and for terminals that only print. No boxes, no redrawing."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from orkbench_tui import locations
from orkbench_tui.errors import OrkError
from orkbench_tui.ops.doctor.checks import run_checks
from orkbench_tui.ops.kernel.patch_series import default_folder, load_series
from orkbench_tui.ops.remote.link import Condition
from orkbench_tui.ops.telemetry.feed import Feed
from orkbench_tui.ops.telemetry.report import status_lines
from orkbench_tui.ops.telemetry.settled import settled
from orkbench_tui.runner.stored_files import list_files
from orkbench_tui.screens.glyphs import ASCII
from orkbench_tui.screens.keys import ELSEWHERE, ONE_BOARD, PAGES
from orkbench_tui.screens.services import Services
from orkbench_tui.screens.view_state import ViewState
from orkbench_tui.screens.views.bench import bench_spoken
from orkbench_tui.screens.views.boards import boards_spoken
from orkbench_tui.screens.views.cores import cores_spoken
from orkbench_tui.screens.views.doctor import doctor_spoken
from orkbench_tui.screens.views.domains import domains_spoken
from orkbench_tui.screens.views.gaps import gaps_spoken
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

if TYPE_CHECKING:
    from orkbench_tui.ops.remote.fleet import Fleet

__all__ = ["PlainPages"]

_RATE_PAUSE_S = 0.25
_FIRST_NEWS_S = 12.0
_WIDTH = 200
_BOARDS = ("b", "boards")


def _titles() -> list[tuple[str, str, str]]:
    """Name, key and title of every page but the help."""
    return [*((page.name, page.key, page.title) for page in PAGES), ("boards", *_BOARDS)]


def _menu() -> str:
    return f"Pages: {', '.join(f'{key} {title}' for _, key, title in _titles())}, ? help."


class PlainPages:
    """The pages of one board as text. ``page`` may be a key, a title or its beginning.

    ``feed`` gives the board's samples; with ``fleet`` it is one of its boards. Without ``services`` the pages that
    need them say so.
    """

    def __init__(self, feed: Feed, services: Services | None, fleet: Fleet | None = None) -> None:
        self._services, self._feed, self._fleet = services, feed, fleet
        self._host = fleet.hosts[0] if fleet is not None else ""
        # Rates need two samples some time apart; another board sends them so by itself.
        self._pause_s = 0.0 if fleet is not None else _RATE_PAUSE_S
        self._taken_s = time.monotonic()
        if fleet is None:
            feed.sample()
        self.page = "dashboard"

    def menu(self) -> list[str]:
        other = " `b HOST` puts another board on the pages." if self._fleet is not None else ""
        return [_menu(), f"Enter reads the page again, q leaves.{other}"]

    def go(self, word: str) -> str:
        """Choose a page, or with ``b HOST`` another board; "" or what is wrong with ``word``."""
        wanted = word.strip().lower()
        if wanted in ("?", "help", "h"):
            self.page = "help"
            return ""
        head, _, host = word.strip().partition(" ")
        if host and head.lower() in _BOARDS:
            return self._watch(host.strip())
        found = [name for name, key, title in _titles() if wanted in (key.lower(), title)]
        found = found or [name for name, _, title in _titles() if title.startswith(wanted)]
        if len(found) != 1:
            return f"no page {word.strip()!r}. {_menu()}"
        self.page = found[0]
        return ""

    def _watch(self, host: str) -> str:
        if self._fleet is None:
            return ONE_BOARD
        if host not in self._fleet.hosts:
            return f"no board {host!r}; boards: {', '.join(self._fleet.hosts)}"
        self._host, self._feed, self.page = host, self._fleet.feed(host), "dashboard"
        return ""

    def lines(self) -> list[str]:
        """The page now. What cannot be read is said in its place."""
        title = next((title for name, _, title in _titles() if name == self.page), self.page)
        try:
            return [f"Page {title}.", *self._reader()()]
        except OrkError as error:
            return [f"Page {title}.", error.line()]
        except OSError as error:
            return [f"Page {title}.", f"the board does not answer: {error.strerror or error}"]

    def _reader(self) -> Callable[[], list[str]]:
        readers: dict[str, Callable[[], list[str]]] = {
            "dashboard": lambda: self._sampled(self._dashboard),
            "cores": lambda: self._sampled(cores_spoken),
            "domains": lambda: self._sampled(domains_spoken),
            "log": lambda: self._sampled(log_spoken),
            "boards": self._boards,
            "rules": rules_spoken,
            "settings": lambda: settings_spoken(
                read_settings(locations.config_file(), os.environ), variable_warnings(os.environ)
            ),
            "help": lambda: [*self.menu(), *help_spoken(ViewState(glyphs=ASCII))],
        }
        if self._services is not None:
            readers |= _working(self._services)
        return readers.get(self.page, lambda: [ELSEWHERE])

    def _sampled(self, view: Callable[[ViewState], list[str]]) -> list[str]:
        time.sleep(max(0.0, self._taken_s + self._pause_s - time.monotonic()))
        sample = settled(self._feed.sample, self._pause_s)
        self._taken_s = time.monotonic()
        return view(ViewState(sample=sample, glyphs=ASCII))

    def _dashboard(self, state: ViewState) -> list[str]:
        sample = state.sample
        if sample is None:
            return []
        unfinished = self._services.unfinished() if self._services is not None else []
        return [*status_lines(sample, _WIDTH, unfinished), *gaps_spoken(sample, state.glyphs)]

    def _boards(self) -> list[str]:
        fleet = self._fleet
        if fleet is None:
            return [ONE_BOARD]
        # Asked at once, links that have only begun would all be said to be connecting.
        deadline_s = time.monotonic() + _FIRST_NEWS_S
        while _undecided(fleet) and time.monotonic() < deadline_s:
            time.sleep(0.05)
        return boards_spoken(fleet.states(), self._host, time.time())


def _undecided(fleet: Fleet) -> bool:
    return any(state.condition is Condition.CONNECTING for state in fleet.states())


def _working(services: Services) -> dict[str, Callable[[], list[str]]]:
    """Pages about this machine: what can be changed, its models, its measurements."""
    return {
        "operations": lambda: operations_spoken(OperationsShown()),
        "models": lambda: models_spoken(list_files(services.models_dir, services.packs_dir), ""),
        "chat": lambda: ["The chat as text is `ork run chat`; it keeps to lines by itself."],
        "doctor": lambda: doctor_spoken(run_checks(services.preflight()), ""),
        "bench": lambda: bench_spoken(read_bench(services)),
        "kernel": lambda: kernel_spoken(read_kernel(services), load_series(default_folder()).patches),
    }
