"""docs/adding-a-probe.md, followed to the letter."""

from __future__ import annotations

import re
import sys
import textwrap
from pathlib import Path
from types import ModuleType

import pytest

from orkbench_tui.driver.npu import Npu
from orkbench_tui.ops.probes import catalogue
from orkbench_tui.ops.probes.asking import ask
from orkbench_tui.ops.probes.declaration import Bench, Verdict
from orkbench_tui.sim.inprocess import InProcessBoard

PAGE = Path(__file__).parents[2] / "docs" / "adding-a-probe.md"


def _module_of_the_page() -> ModuleType:
    found = re.search(
        r"^ *```python\n(.*?)^ *```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
    )
    assert found is not None
    module = ModuleType("probe_of_the_page")
    exec(compile(textwrap.dedent(found[1]), str(PAGE), "exec"), module.__dict__)
    return module


def test_the_module_it_shows_is_a_probe_that_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    module = _module_of_the_page()
    (probe,) = module.PROBES
    assert module in (*catalogue._GROUPS, module) and hasattr(catalogue, "_GROUPS")
    board = InProcessBoard()
    with Npu(board.device()) as npu:
        result = ask(probe, Bench(npu, "sim"))
    board.close()
    assert (result.control.ok, result.answer.verdict) == (True, Verdict.PASS)
    assert result.answer.figures[0].label == "predicted"


def test_it_is_run_by_the_command_the_page_names(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from orkbench_tui.cli.main import run

    (probe,) = _module_of_the_page().PROBES
    monkeypatch.setitem(catalogue.PROBES, probe.name, probe)
    assert "ork npu probe zeros --target sim" in PAGE.read_text(encoding="utf-8")
    assert run(["npu", "probe", "zeros", "--target", "sim"]) == 0
    assert "pass: all zeros" in capsys.readouterr().out
    assert "orkbench_tui.ops.probes.catalogue" in sys.modules
