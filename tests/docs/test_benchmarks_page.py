"""docs/benchmarks.md: its figures are the model's, its commands and flags exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from orkbench_tui.cli.main import run
from orkbench_tui.driver.timing.reproduction import comparisons

PAGE = (Path(__file__).parents[2] / "docs" / "benchmarks.md").read_text(encoding="utf-8")
ROWS = {row.figure.key: row for row in comparisons()}

TABLE = {
    "doorbell, 64x4096x4096": "RES-41 doorbell 64x4096x4096",
    "blocking, 64x2048x2048": "RES-41 blocking 64x2048x2048",
    "six weights at once": "RES-69 S=6",
    "512x2048x2048 on one core": "RES-08 copied",
    "Qwen3-1.7B pp512": "RES-02 prefill",
    "Qwen2.5-7B pp256": "RES-77 pp256",
    "Qwen3-0.6B decode": "RES-75 CPU decode",
    "27B, 160 resets a forward": "RES-64 resets",
}


@pytest.mark.parametrize(("name", "key"), TABLE.items())
def test_the_table_is_what_the_model_gives(name: str, key: str) -> None:
    line = re.search(rf"^\| {re.escape(name)} \| (\S+) \S+ \| (\S+) \S+ \| (\S+) % \|$", PAGE, re.MULTILINE)
    assert line is not None
    row = ROWS[key]
    assert row.predicted is not None and row.deviation is not None
    assert float(line[1]) == row.figure.value
    assert float(line[2]) == pytest.approx(row.predicted, rel=0.003)
    assert float(line[3]) == pytest.approx(100 * row.deviation, abs=0.06)


def test_everything_that_is_not_reproduced_is_told() -> None:
    told = PAGE.partition("Not reproduced:")[2].partition("`--against")[0]
    single = {int(number) for number in re.findall(r"([+-]\d+) %", told)}
    span = re.search(r"\+(\d+) to \+(\d+) %", told)
    assert span is not None
    shares = single | set(range(int(span[1]), int(span[2]) + 1))
    off = {round(100 * (row.deviation or 0)) for row in ROWS.values() if row.within is False}
    assert off <= shares and single - off <= {int(span[2])}


def test_the_flags_it_names_exist(capsys: pytest.CaptureFixture[str]) -> None:
    helps = ""
    for words in (["bench"], ["bench", "compare"], ["bench", "history"]):
        assert run(["run", *words, "--help"]) == 0
        helps += capsys.readouterr().out
    assert run(["npu", "timing", "--help"]) == 0
    helps += capsys.readouterr().out
    for flag in set(re.findall(r"(?<![\w-])(--?[a-z][a-z-]*)(?![\w-])", PAGE)) - {"--model"}:
        assert flag in helps, flag
