"""The model against every published figure, and the ledgers that go with it."""

from __future__ import annotations

import pytest

from orkbench_tui.driver.timing.hypotheses import CLOSED, closed
from orkbench_tui.driver.timing.published import PUBLISHED, figure
from orkbench_tui.driver.timing.reproduction import TOLERANCE, Comparison, comparisons

ROWS = {row.figure.key: row for row in comparisons()}


def test_every_row_of_the_results_is_there() -> None:
    assert {row.id for row in PUBLISHED} == {f"RES-{n:02}" for n in range(1, 82)}
    assert len({row.key for row in PUBLISHED}) == len(PUBLISHED)
    assert all(row.source and row.unit and row.configuration for row in PUBLISHED)


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS.keys())
def test_a_figure_is_reproduced_or_the_reason_is_given(row: Comparison) -> None:
    assert row.within or row.why


def test_what_nothing_was_read_off_is_within_ten_percent_but_for_the_listed() -> None:
    claimed = [row for row in ROWS.values() if row.deviation is not None and not row.calibrated]
    off = {row.figure.key for row in claimed if abs(row.deviation or 0) > TOLERANCE}
    assert len(claimed) >= 30
    assert off == {
        "RES-06 3 cores, after",
        "RES-11 ioctl and wait",
        "RES-27 floor",
        "RES-41 blocking 64x512x512",
        "RES-41 doorbell 64x512x512",
        "RES-76 core 0",
        "RES-76 core 1",
        "RES-76 core 2",
    }


@pytest.mark.parametrize(
    ("key", "value", "unit"),
    [
        ("RES-41 doorbell 64x4096x4096", 2749.4, "us/op"),
        ("RES-69 S=6", 19.87, "GB/s"),
        ("RES-77 pp512", 45.3, "tok/s"),
        ("RES-76 cpu7", 56, "% of cpu"),
        ("RES-66 CPU", 18.0, "s"),
    ],
)
def test_figures_are_found_by_key(key: str, value: float, unit: str) -> None:
    assert (figure(key).value, figure(key).unit) == (value, unit)


def test_the_gap_ratios_of_the_study() -> None:
    ours, theirs = figure("RES-77 pp256").value, figure("RES-78 163 tokens").value
    assert ours / theirs == pytest.approx(0.56, abs=0.005)
    assert figure("RES-77 pp512").value / figure("RES-78 1390 tokens").value == pytest.approx(0.66, abs=0.005)
    assert figure("RES-77 decode").value / figure("RES-78 decode").value == pytest.approx(0.22, abs=0.005)


def test_closed_hypotheses_carry_their_evidence() -> None:
    assert len({row.name for row in CLOSED}) == len(CLOSED)
    assert all(row.claim and row.evidence and row.source for row in CLOSED)
    slow_decode = [row for row in CLOSED if "NEXT" in row.source]
    assert len(slow_decode) == 9
    assert "3192" in closed("native-a").evidence
