"""The key table: no doubles, nothing that terminals eat, every action there."""

from __future__ import annotations

import re

import pytest

from orkbench_tui.screens.app import OrkApp
from orkbench_tui.screens.help_screen import HelpScreen
from orkbench_tui.screens.keys import KEYS, keys_for
from orkbench_tui.screens.log_screen import LogScreen

EATEN = {"ctrl+a", "ctrl+b", "ctrl+s", "ctrl+q", "ctrl+z"}


@pytest.mark.parametrize("where", ["everywhere", "log", "help"])
def test_no_key_twice(where: str) -> None:
    names = [name for key in KEYS if key.where in ("everywhere", where) for name in key.keys.split(",")]
    assert len(names) == len(set(names))


def test_no_key_that_tmux_or_flow_control_eats() -> None:
    assert not EATEN & {name for key in KEYS for name in key.keys.split(",")}
    assert not any("alt+" in key.keys for key in KEYS)


def test_every_action_exists() -> None:
    for owner, where in ((OrkApp, "everywhere"), (LogScreen, "log"), (HelpScreen, "help")):
        for key in keys_for(where):
            name = re.sub(r"\(.*", "", key.action)
            assert callable(getattr(owner, f"action_{name}", None)), key.action
        assert len(owner.BINDINGS) == len(keys_for(where))


def test_escape_does_not_quit() -> None:
    quit_keys = next(key.keys for key in KEYS if key.action == "leave")
    assert "escape" not in quit_keys and quit_keys.startswith("q")
