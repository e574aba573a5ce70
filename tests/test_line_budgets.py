"""Modules stay small: a budget of lines for each, exceptions stated with their reason."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
RULES = tomllib.loads((ROOT / "tests" / "line_budgets.toml").read_text(encoding="utf-8"))


def over_budget(sizes: Mapping[str, int], default: int, budgets: Mapping[str, int]) -> list[str]:
    return [
        f"{name}: {lines} lines, budget {budgets.get(name, default)}"
        for name, lines in sorted(sizes.items())
        if lines > budgets.get(name, default)
    ]


def _sizes() -> dict[str, int]:
    return {
        str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines())
        for path in (ROOT / "orkbench_tui").rglob("*.py")
    }


def test_no_module_is_above_its_budget() -> None:
    budgets = {name: row["lines"] for name, row in RULES["budgets"].items()}
    assert over_budget(_sizes(), RULES["default"], budgets) == []


def test_every_exception_is_needed_and_says_why() -> None:
    sizes = _sizes()
    for name, row in RULES["budgets"].items():
        assert row["why"] and set(row) == {"lines", "why"}
        assert name in sizes, f"{name} is gone: take its row away"
        assert row["lines"] > RULES["default"]
        assert sizes[name] > 0.85 * row["lines"], f"{name} has shrunk: lower its budget"


@pytest.mark.parametrize(
    ("lines", "budget", "told"),
    [(2950, 2950, 0), (2951, 2950, 1), (2975, 2975, 0), (936, 935, 1), (935, 935, 0)],
)
def test_growth_by_a_line_is_told(lines: int, budget: int, told: int) -> None:
    """Sizes and budgets of the published driver: npu.c 2950, raised to 2975 with a reason; chain.c 935."""
    assert len(over_budget({"a.c": lines, "b.c": 400}, 400, {"a.c": budget})) == told
    assert over_budget({"b.c": 401}, 400, {}) == ["b.c: 401 lines, budget 400"]
