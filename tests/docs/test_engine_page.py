"""docs/engine.md: its predicted figures are those of the code, its rules and settings the ones there are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from orkbench_tui.driver.timing.shapes import REFERENCE_MODELS
from orkbench_tui.runner.dispatch.dispatcher import MOVABLE
from orkbench_tui.runner.dispatch.rules import RULES
from orkbench_tui.runner.overlap.costs import in_place_costs, published_costs
from orkbench_tui.runner.overlap.micro_batches import micro_batches
from orkbench_tui.runner.overlap.predict import predict_utilization

PAGE = (Path(__file__).parents[2] / "docs" / "engine.md").read_text(encoding="utf-8")
SEVEN = REFERENCE_MODELS["qwen2.5-7b"]
TABLES = {
    "published stack": predict_utilization(SEVEN, published_costs(), [256, 256]),
    "this driver": predict_utilization(SEVEN, in_place_costs(), micro_batches(512)),
}
ROW = re.compile(
    r"^\| (published stack|this driver) \| ([^|]+) \| (\d+) / (\d+) / (\d+) %[^|]*\| (\d+) % \| ([\d.]+)",
    re.M,
)


def test_the_table_of_busy_shares_is_what_the_model_says() -> None:
    rows = ROW.findall(PAGE)
    assert len(rows) == 4
    for costs, order, *figures in rows:
        table = TABLES[costs]
        shares = table.serial if order == "serial" else table.overlapped
        if order != "serial":
            count, size = map(int, re.findall(r"\d+", order))
            assert table.micro_batches == (size,) * count
        *cores, cpu, rate = map(float, figures)
        assert cores == [round(100 * core) for core in shares.cores]
        assert cpu == round(100 * shares.cpu) and rate == pytest.approx(shares.tokens_per_s, abs=0.06)


def test_the_published_stack_with_four_under_way() -> None:
    said = re.search(r"four micro-batches of 128 rows under way .*? (\d+) / (\d+) / (\d+) %", PAGE)
    assert said is not None
    table = predict_utilization(SEVEN, published_costs(), [128] * 4, in_flight=4)
    assert [int(share) for share in said.groups()] == [round(100 * core) for core in table.overlapped.cores]


@pytest.mark.parametrize("tokens", [1024, 2048])
def test_the_figures_of_longer_prompts(tokens: int) -> None:
    said = re.search(rf"{tokens} tokens (\d+) %", PAGE)
    assert said is not None
    table = predict_utilization(SEVEN, in_place_costs(), micro_batches(tokens))
    assert int(said[1]) == round(100 * table.overlapped.cores[0])


def test_every_rule_and_operation_is_on_the_page() -> None:
    rules = re.findall(r"^\| ([a-z-]+) \| (?:CPU|as set|the faster)", PAGE, re.M)
    assert rules == [name for name, _ in RULES]
    for operation in MOVABLE:
        assert f"`{operation.value}`" in PAGE
