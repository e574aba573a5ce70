"""The key table: no doubles, nothing that terminals eat, every action there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from orkbench_tui.screens.app import OrkApp
from orkbench_tui.screens.bench_screen import BenchScreen
from orkbench_tui.screens.boards_screen import BoardsScreen
from orkbench_tui.screens.chat_screen import ChatScreen
from orkbench_tui.screens.cores_screen import CoresScreen
from orkbench_tui.screens.doctor_screen import DoctorScreen
from orkbench_tui.screens.domains_screen import DomainsScreen
from orkbench_tui.screens.help_screen import HelpScreen
from orkbench_tui.screens.kernel_screen import KernelScreen
from orkbench_tui.screens.keys import KEYS, PAGES, keys_for
from orkbench_tui.screens.log_screen import LogScreen
from orkbench_tui.screens.models_screen import ModelsScreen
from orkbench_tui.screens.operations_screen import OperationsScreen
from orkbench_tui.screens.palette_screen import commands_for, found
from orkbench_tui.screens.rules_screen import RulesScreen
from orkbench_tui.screens.settings_screen import SettingsScreen

OWNERS = {
    "everywhere": OrkApp,
    "cores": CoresScreen,
    "domains": DomainsScreen,
    "log": LogScreen,
    "operations": OperationsScreen,
    "models": ModelsScreen,
    "chat": ChatScreen,
    "doctor": DoctorScreen,
    "bench": BenchScreen,
    "rules": RulesScreen,
    "help": HelpScreen,
    "boards": BoardsScreen,
    "kernel": KernelScreen,
    "settings": SettingsScreen,
}
EATEN = {"ctrl+a", "ctrl+b", "ctrl+s", "ctrl+q", "ctrl+z"}


@pytest.mark.parametrize("where", list(OWNERS))
def test_no_key_twice(where: str) -> None:
    names = [name for key in KEYS if key.where in ("everywhere", where) for name in key.keys.split(",")]
    assert len(names) == len(set(names))


def test_no_key_that_tmux_or_flow_control_eats() -> None:
    assert not EATEN & {name for key in KEYS for name in key.keys.split(",")}
    assert not any("alt+" in key.keys for key in KEYS)


def test_every_action_exists() -> None:
    assert {key.where for key in KEYS} == set(OWNERS)
    for where, owner in OWNERS.items():
        for key in keys_for(where):
            name = re.sub(r"\(.*", "", key.action)
            assert callable(getattr(owner, f"action_{name}", None)), key.action
        assert len(owner.BINDINGS) == len(keys_for(where))


def test_escape_does_not_quit() -> None:
    quit_keys = next(key.keys for key in KEYS if key.action == "leave")
    assert "escape" not in quit_keys and quit_keys.startswith("q")


def test_every_page_has_a_key_and_is_in_the_palette() -> None:
    labels = [command.label for command in commands_for("dashboard")]
    for page in PAGES:
        assert f"go to {page.title}" in labels
        assert any(key.keys == page.key and page.name in key.action for key in KEYS)


def test_every_key_of_a_page_is_in_its_palette() -> None:
    for where in OWNERS:
        actions = {command.action for command in commands_for(where)}
        for key in (*keys_for(where), *keys_for("everywhere")):
            assert key.action in actions or key.action in ("palette", "go_back"), key


def test_commands_are_found_by_any_word() -> None:
    commands = commands_for("log")
    assert found(commands, "perf gov")[0].label == "plan governors performance"
    assert found(commands, "board doctor")[0].label == "go to doctor"
    assert found(commands, "pause")[0].where == "log"
    assert found(commands, "no such thing") == ()
    assert found(commands, "") == commands


def test_no_key_changes_the_board_by_itself() -> None:
    changing = [key for key in KEYS if key.action in ("apply", "resume", "verify", "undo", "plan")]
    assert {key.where for key in changing} == {"operations", "models", "kernel"}


def test_the_document_names_every_page_and_its_command() -> None:
    text = (Path(__file__).parents[2] / "docs" / "screens.md").read_text()
    for page in PAGES:
        row = next(part for part in text.splitlines() if part.startswith(f"| {page.key} | {page.title} |"))
        command = page.command.removesuffix(" --help")
        assert f"`{command}" in row, page
