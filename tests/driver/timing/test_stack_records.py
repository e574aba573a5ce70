"""Records of models, packs and kernels draw the numbers their source draws, and agree with the results."""

from __future__ import annotations

import pytest

from orkbench_tui.driver.timing.constants import CONSTANTS, value
from orkbench_tui.driver.timing.hypotheses import closed
from orkbench_tui.driver.timing.published import figure
from orkbench_tui.driver.timing.published.timeline import TIMELINE, entries_about
from orkbench_tui.driver.timing.records import RECORDS, Record
from orkbench_tui.driver.timing.stack_records import STACK_RECORDS, stack_record
from orkbench_tui.driver.timing.submits import pipeline_ceiling


@pytest.mark.parametrize("row", STACK_RECORDS, ids=[row.id for row in STACK_RECORDS])
def test_what_was_drawn_follows_from_the_figures(row: Record) -> None:
    assert row.source and row.verdict and row.figures
    assert row.said.keys() == row.drawn.keys()
    for name, said in row.said.items():
        places = len(f"{said:g}".partition(".")[2])
        assert row.drawn[name] == pytest.approx(said, abs=0.5001 * 10.0**-places), name


def test_each_is_found_by_its_row_and_stands_once() -> None:
    ids = [row.id for row in (*RECORDS, *STACK_RECORDS)]
    assert len(set(ids)) == len(ids)
    with pytest.raises(KeyError):
        stack_record("INV-999")


def test_records_agree_with_the_published_results() -> None:
    attention = stack_record("INV-207").figures
    for name in ("f16", "q8_0", "Q4_K"):
        assert attention[f"{name} prefill"] == figure(f"RES-55 {name} pp512").value
    grouped = stack_record("INV-241").figures
    assert (grouped["M=1"], grouped["M=128"]) == (figure("RES-62 M=1").value, figure("RES-62 M=128").value)
    assert set(stack_record("INV-247").figures.values()) == {figure("RES-63 before").value, 0}
    assert stack_record("INV-324").figures["NPU"] == figure("RES-28 NPU").value
    assert stack_record("INV-297").figures["cpu7, live"] == figure("RES-76 cpu7").value
    assert stack_record("INV-356").figures["run"] == figure("RES-80 t_run").value
    error = stack_record("INV-363").figures
    assert error["Q4_0"] == figure("RES-61 Q4_0, CPU").value
    assert error["G=32 rotated W4A8"] == figure("RES-61 G=32 rotated W4A8").value
    assert stack_record("INV-329").figures["NPU tok/s"] == figure("RES-21 NPU experts").value


def test_a_27b_pack_gains_quality_with_what_it_keeps() -> None:
    tiers = [figure(f"RES-57 {name} PPL").value for name in ("W4A4", "W4A8 ra8", "W4A8 G=512")]
    assert tiers == [10.6780, 10.4421, 9.7485] == sorted(tiers, reverse=True)
    assert [figure(f"RES-57 {name}").value for name in ("W4A4", "W4A8 ra8", "W4A8 G=512")] == [11, 13, 13]


def test_the_screen_of_the_small_model_orders_the_formats() -> None:
    names = ("CPU bf16", "CPU Q4_K_M", "CPU Q4_0", "rotated int8", "W4A4")
    screen = [figure(f"RES-59 {name}").value for name in names]
    assert screen == [11.7783, 12.0266, 12.9964, 14.8577, 15.9011] == sorted(screen)


def test_hiding_the_host_s_part_of_a_submit_gains_what_the_study_says() -> None:
    """The ioctl is 94 to 95 % of a submit; with all else hidden behind it, a submit takes the ioctl alone."""
    share = figure("RES-81 ioctl").value
    assert pipeline_ceiling(100 - share, share, 0) == pytest.approx(figure("RES-81 FFN").value, abs=0.005)
    assert figure("RES-81 synth").value < 100 - share
    assert pipeline_ceiling(10, 100, 0) == pytest.approx(figure("RES-81 attention").value)


def test_the_memory_rates_are_constants_with_their_standing() -> None:
    rows = {row.name: row for row in CONSTANTS}
    for name, rate in (("cpu_decode", 9.4), ("dram_rate", 21.9), ("one_core_decode", 8.0)):
        assert value(name) == rate and rows[name].standing == "published" and rows[name].source
    assert value("one_core_decode") < value("cpu_decode") < value("dram_rate")


@pytest.mark.parametrize(
    ("name", "evidence"),
    [
        ("npu-governor", "1000 MHz"),
        ("residence-graph-walk", "641 splits"),
        ("residence-set-tensor", "0 times"),
        ("residence-one-token", "0 loaded"),
        ("error-depth", "0.008 to 0.041"),
        ("expert-offload", "5.33"),
        ("gdn-offload", "1.9 to 4.8"),
    ],
)
def test_a_closed_hypothesis_names_what_closed_it(name: str, evidence: str) -> None:
    assert evidence in closed(name).evidence


def test_a_conclusion_that_was_replaced_names_the_one_that_took_its_place() -> None:
    assert "77 %" in closed("per-core-kernel").evidence
    assert "one after the other" in closed("per-core-kernel").instead
    for name in ("graph-walk", "set-tensor"):
        assert "runs no operation" in closed(f"residence-{name}").instead


def test_every_dated_finding_is_listed_in_order_and_found_by_its_commits() -> None:
    dates = [entry.date for entry in TIMELINE]
    assert dates == sorted(dates) and len(TIMELINE) >= 21
    assert {"2026-06-13", "2026-06-19", "2026-06-23", "2026-06-24", "2026-06-26"} < set(dates)
    assert {"2026-07-30", "2026-08-19"} < set(dates)
    for commit in ("34b539e", "39d5369", "3fad74a", "c1bb9cc", "5751e06", "7d002965f"):
        assert any(commit in entry.commits for entry in entries_about(commit)), commit
    assert entries_about("Gini")[0].tier == "tier 5"
    assert entries_about("") == TIMELINE and entries_about("no such word") == ()


def test_the_profile_that_shipped_trades_decode_and_quality_for_prefill() -> None:
    gain = figure("RES-20 pp512").value / figure("RES-20 native").value
    assert gain == pytest.approx(1.59, abs=0.01)
    dearer = figure("RES-20 shipped profile PPL").value / figure("RES-20 native PPL").value
    assert dearer == pytest.approx(1.055, abs=0.001)
