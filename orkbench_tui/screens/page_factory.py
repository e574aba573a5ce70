"""Pages by name, each imported when it is first opened: what is not looked at costs no start-up time."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from orkbench_tui.screens.page import Page
from orkbench_tui.screens.services import Services

if TYPE_CHECKING:
    from orkbench_tui.screens.app import OrkApp

__all__ = ["PageFactory"]


class PageFactory:
    """Makes the pages of an app. Those that need services are there only with them."""

    def __init__(self, app: OrkApp, services: Services | None) -> None:
        self._app, self._services = app, services

    def make(self, name: str) -> Page | None:
        """A new page; None for an unknown name and for pages that need services where there are none."""
        plain = {
            "cores": self._cores,
            "domains": self._domains,
            "log": self._log,
            "rules": self._rules,
            "help": self._help,
            "palette": self._palette,
            "settings": self._settings,
        }
        if name in plain:
            return plain[name]()
        if name == "boards":
            return self._boards()
        working = {
            "operations": self._operations,
            "models": self._models,
            "chat": self._chat,
            "doctor": self._doctor,
            "bench": self._bench,
            "kernel": self._kernel,
        }
        return working[name](self._services) if name in working and self._services is not None else None

    def _boards(self) -> Page | None:
        from orkbench_tui.screens.boards_screen import BoardsScreen

        app = self._app
        return None if app.fleet is None else BoardsScreen(app.fleet, lambda: app.host, app.watch_board)

    def _cores(self) -> Page:
        from orkbench_tui.screens.cores_screen import CoresScreen

        return CoresScreen()

    def _domains(self) -> Page:
        from orkbench_tui.screens.domains_screen import DomainsScreen

        return DomainsScreen()

    def _log(self) -> Page:
        from orkbench_tui.screens.log_screen import LogScreen

        return LogScreen()

    def _rules(self) -> Page:
        from orkbench_tui.screens.rules_screen import RulesScreen

        return RulesScreen()

    def _help(self) -> Page:
        from orkbench_tui.screens.help_screen import HelpScreen

        return HelpScreen()

    def _palette(self) -> Page:
        from orkbench_tui.screens.palette_screen import PaletteScreen

        return PaletteScreen(self._app.run_command)

    def _settings(self) -> Page:
        from orkbench_tui import locations
        from orkbench_tui.screens.settings_screen import SettingsScreen

        return SettingsScreen(locations.config_file(), os.environ)

    def _operations(self, services: Services) -> Page:
        from orkbench_tui.screens.operations_screen import OperationsScreen
        from orkbench_tui.screens.work.operation_worker import OperationWorker

        app = self._app
        worker = OperationWorker(services, app.post, app.aside)
        return OperationsScreen(worker, services.state_dir, app.chat_holds_npu, services.unfinished)

    def _models(self, services: Services) -> Page:
        from orkbench_tui.screens.models_screen import ModelsScreen

        return ModelsScreen(services, self._app.post, self._app.chat_with)

    def _chat(self, services: Services) -> Page:
        from orkbench_tui.screens.chat_screen import ChatScreen

        return ChatScreen(services, self._app.post, lambda: self._app.action_show_page("models"))

    def _doctor(self, services: Services) -> Page:
        from orkbench_tui.screens.doctor_screen import DoctorScreen

        return DoctorScreen(services, self._app.post, self._app.go_to_operation)

    def _bench(self, services: Services) -> Page:
        from orkbench_tui.screens.bench_screen import BenchScreen

        return BenchScreen(services, self._app.post)

    def _kernel(self, services: Services) -> Page:
        from orkbench_tui.screens.kernel_screen import KernelScreen
        from orkbench_tui.screens.work.patch_worker import PatchWorker

        return KernelScreen(PatchWorker(services, self._app.post))
