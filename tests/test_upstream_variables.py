"""Variables of the upstream stack are recognised, explained, and set nothing here."""

from __future__ import annotations

import dataclasses
import re

import pytest

from orkbench_tui.driver.guards import GUARDS
from orkbench_tui.ops.probes.catalogue import PROBES
from orkbench_tui.settings import Settings
from orkbench_tui.upstream_variables import UPSTREAM_VARIABLES, Danger, set_variables, variable_warnings
from tests.conftest import ork


def test_no_row_is_a_setting_of_ours_and_every_one_is_complete() -> None:
    ours = {f"ORK_{field.name.upper()}" for field in dataclasses.fields(Settings)}
    assert not set(UPSTREAM_VARIABLES) & ours
    assert len(UPSTREAM_VARIABLES) >= 70
    assert {"ORK_MOE_MPAD", "ORK_I4_M1_NPU"} < set(UPSTREAM_VARIABLES), "also those of branches set aside"
    for row in UPSTREAM_VARIABLES.values():
        assert re.fullmatch(r"ORK_[A-Z0-9_]+", row.name) and row.meaning
        assert not row.presence or row.default == "off"


def test_what_it_names_here_exists() -> None:
    fields = {field.name for field in dataclasses.fields(Settings)}
    for row in UPSTREAM_VARIABLES.values():
        for name in re.findall(r"\b([a-z]+(?:_[a-z]+)*)=", row.here):
            assert name in fields or name == "all", row
        for guard in re.findall(r"GRD-\d\d", row.here):
            assert guard in GUARDS
        for probe in re.findall(r"ork npu probe ([a-z-]+)", row.here):
            assert probe in PROBES


@pytest.mark.parametrize(
    "words", ["pack build --quant", "pack qerr", "npu modes --nothrash", "pack build --force"]
)
def test_the_flags_it_names_are_in_the_help(words: str) -> None:
    command, _, flag = words.partition(" --")
    shown = ork(*command.split(), "--help")
    assert shown.returncode == 0 and (not flag or f"--{flag}" in shown.stdout)


@pytest.mark.parametrize("value", ["0", "false", "no", "OFF", ""])
def test_a_zero_is_off_here_and_on_upstream_where_only_presence_counts(value: str) -> None:
    (line,) = variable_warnings({"ORK_MOE_NPU": value})
    assert "taken as off here" in line and "is on there" in line and "GRD-29" in line
    assert not UPSTREAM_VARIABLES["ORK_MOE_NPU"].on(value)
    (on,) = variable_warnings({"ORK_MOE_NPU": "1"})
    assert "off here" not in on and str(Danger.SLOWS) in on
    (by_value,) = variable_warnings({"ORK_ATTN": value})
    assert "is on there" not in by_value


def test_unknown_ones_are_named_and_known_settings_are_not() -> None:
    assert variable_warnings({"ORK_NOPE": "1", "ORK_THREADS": "2", "HOME": "/"}) == [
        "ORK_NOPE sets nothing: there is no such setting"
    ]


def test_what_corrupts_says_so() -> None:
    (line,) = variable_warnings({"ORK_XSPEC_NORESET": "1"})
    assert "corrupts results" in line and "sets nothing here" in line


def test_a_record_keeps_all_that_is_set() -> None:
    assert set_variables({"ORK_B": "1", "PATH": "/", "ORK_A": ""}) == {"ORK_A": "", "ORK_B": "1"}


def test_the_settings_page_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORK_MOE_NPU", "0")
    shown = ork("config", "show")
    assert shown.returncode == 0
    assert "GRD-27" in shown.stderr and "ORK_MOE_NPU=0" in shown.stderr
