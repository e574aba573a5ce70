"""docs/serving.md and docs/chat.md name what the program has, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path

from orkbench_tui.cli.chat_lines import SCHEMA
from orkbench_tui.cli.chat_loop import _HELP
from orkbench_tui.runner.serve import api_errors
from orkbench_tui.settings import Settings
from tests.runner.serve.serving import running

DOCS = Path(__file__).parents[2] / "docs"
SERVE = Path(api_errors.__file__).parent


def test_every_metric_is_on_the_page_and_every_one_on_the_page_exists() -> None:
    page = (DOCS / "serving.md").read_text()
    with running() as client:
        client.chat()
        _, content, _ = client.ask("/metrics")
    there = set(re.findall(r"^# TYPE (ork_serve_\w+) ", content, re.M))
    named = set(re.findall(r"ork_serve_\w+", page.replace("`_running`", "`ork_serve_requests_running`")))
    assert named == there


def test_every_error_code_is_on_the_page() -> None:
    page = (DOCS / "serving.md").read_text()
    source = "".join(path.read_text() for path in SERVE.glob("*.py"))
    codes = set(re.findall(r'code="(\w+)"', source))
    assert {"queue_full", "no_device", "shutting_down"} <= codes
    codes |= {"model_not_found", "context_length_exceeded", "invalid_conversation", "invalid_value"}
    assert all(f'"{code}"' in source for code in codes)
    assert {code for code in codes if f"`{code}`" not in page} == set()


def test_every_path_is_on_the_page() -> None:
    page = (DOCS / "serving.md").read_text()
    for path in re.findall(r'route\("([^"]+)"', (SERVE / "app.py").read_text()):
        assert path.replace("{name:path}", "NAME") in page


def test_every_command_of_the_chat_is_on_its_page() -> None:
    page = (DOCS / "chat.md").read_text()
    commands = [command for command, _ in _HELP if command.startswith("/") and command != "/help"]
    assert len(commands) >= 6
    assert [command for command in commands if f"`{command}`" not in page] == []
    assert f"ork.{SCHEMA}/1" in page


def test_the_settings_the_pages_name_exist_with_these_defaults() -> None:
    page = (DOCS / "chat.md").read_text()
    assert "`context_limit`" in page
    assert Settings().context_limit == "stop"
    assert f"({Settings().context}, at most" in page
    assert Settings().chat_history == "on"
