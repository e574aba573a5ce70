"""docs/watching.md names every alert, setting and fact of the command there is, and no other."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

from orkbench_tui.ops.kernel_log.rules import Severity
from orkbench_tui.ops.telemetry.alert_hook import facts
from orkbench_tui.ops.telemetry.alerts import ALERTS, Event, Thresholds
from orkbench_tui.settings import Settings

PAGE = (Path(__file__).parents[2] / "docs" / "watching.md").read_text()


def test_every_alert_is_in_the_table() -> None:
    rows = [
        line for line in PAGE.split("## Alerts")[1].split("\n\n")[1].splitlines() if line.startswith("| `")
    ]
    named = {name for row in rows for name in re.findall(r"`([a-z_.]+)`", row.split("|")[1])}
    assert named == {rule.id for rule in ALERTS}


def test_thresholds_are_those_of_the_settings() -> None:
    settings, thresholds = Settings(), Thresholds()
    for field in dataclasses.fields(Thresholds):
        value = getattr(settings, f"alert_{field.name}")
        assert value == getattr(thresholds, field.name)
        assert f"`alert_{field.name}` ({value:g})" in PAGE


def test_the_facts_of_the_command_are_named() -> None:
    for name in facts(Event("a", Severity.INFO, "", "", 0.0, 0.0), ""):
        assert f"`{name}`" in PAGE or f"`…{name.removeprefix('ORKBENCH_ALERT')}`" in PAGE
