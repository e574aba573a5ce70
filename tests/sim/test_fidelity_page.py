"""docs/fidelity.md names tests and rules that exist."""

from __future__ import annotations

import re
from pathlib import Path

from orkbench_tui.sim.chip import conv_rules

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "fidelity.md").read_text()


def test_every_test_it_names_exists() -> None:
    functions = "\n".join(
        re.findall(r"def (test_\w+)", "".join(p.read_text() for p in ROOT.glob("tests/**/*.py")))
    )
    rules = PAGE.split("## Driver versions")[0]
    rows = [line.rsplit("|", 2)[1] for line in rules.splitlines() if line.startswith("|")]
    named = [name for row in rows for name in re.findall(r"`(\w+?)…?`", row) if name.count("_") >= 2]
    assert len(named) > 20
    assert [name for name in named if name not in functions] == []


def test_every_rule_of_a_convolution_is_described() -> None:
    described = set(re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE))
    assert {name for name, _ in conv_rules._RULES} <= described


def test_it_names_files_that_exist() -> None:
    for path in set(re.findall(r"`(tests/[\w/]+\.py|driver/\w+\.py)`", PAGE)):
        assert (ROOT / path).exists() or (ROOT / "orkbench_tui" / path).exists(), path


def test_rules_without_a_source_are_counted() -> None:
    """Who adds an assumed rule raises the number on the page, so that it is seen."""
    said = re.search(r"(\d+) rows of this page hold such a rule", PAGE)
    rows = [line for line in PAGE.splitlines() if line.startswith("|") and "assumed" in line]
    assert said is not None and int(said[1]) == len(rows)
