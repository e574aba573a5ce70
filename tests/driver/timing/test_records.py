"""Published records draw the numbers their source draws from them."""

from __future__ import annotations

import pytest

from orkbench_tui.driver.timing.hypotheses import closed
from orkbench_tui.driver.timing.published import figure
from orkbench_tui.driver.timing.records import RECORDS, Record, record
from orkbench_tui.driver.timing.submits import reset_ns


def _places(number: float) -> float:
    """Half a unit of the last place the source prints."""
    text = f"{number:g}"
    return 0.5001 * 10.0 ** -(len(text.split(".")[1]) if "." in text else 0)


@pytest.mark.parametrize("row", RECORDS, ids=[row.id for row in RECORDS])
def test_what_was_drawn_follows_from_the_figures(row: Record) -> None:
    assert row.source and row.verdict and row.figures
    assert row.said.keys() == row.drawn.keys()
    for name, said in row.said.items():
        assert row.drawn[name] == pytest.approx(said, abs=_places(said)), name


def test_records_are_found_by_their_row() -> None:
    assert len({row.id for row in RECORDS}) == len(RECORDS)
    with pytest.raises(KeyError):
        record("INV-999")


def test_a_wrong_figure_would_show() -> None:
    row = record("INV-004")
    assert row.draw({**row.figures, "submit": 4591})["submit"] != pytest.approx(64, abs=1)


def test_one_call_on_one_core_is_work_sums_and_copies() -> None:
    call = record("INV-004")
    assert call.figures["call"] / figure("RES-07 K in two slices").value == pytest.approx(1.02, abs=0.005)
    slower = figure("RES-07 K in two slices").value / figure("RES-07 closed runtime").value
    assert slower == pytest.approx(3.3, abs=0.05)


def test_the_gap_the_work_began_with() -> None:
    gap = record("INV-016")
    assert (gap.figures["prefill"], gap.figures["decode"]) == (3.2, 1.24)
    assert gap.figures["cores, M=1"] == figure("RES-05 3 cores, M=1").value
    assert gap.figures["cores, M=512"] == figure("RES-05 3 cores, M=512").value


def test_decode_matmuls_are_at_parity() -> None:
    assert record("INV-023").figures["time"] == 1.02


def test_mixed_tiers_beat_quantizing_twice() -> None:
    ppl = {name: figure(f"RES-31 {name}").value for name in ("fp16 + Q4_K_M map", "from Q4_K_M", "int8")}
    assert ppl["from Q4_K_M"] - ppl["fp16 + Q4_K_M map"] == pytest.approx(1.15, abs=0.001)
    native, worst = figure("RES-31 Q4_K_M on CPU").value, figure("RES-31 UD-Q4_K_XL").value
    assert native < ppl["int8"] < ppl["fp16 + Q4_K_M map"] < ppl["from Q4_K_M"] < worst
    assert (native, worst) == (10.92, 17.91)


def test_rotation_helps_one_scale_a_row_and_hurts_groups() -> None:
    grid = {
        (name, rotated): figure(f"RES-15 {name}{', rotated' if rotated else ''}").value
        for name in ("grouped", "channel")
        for rotated in (False, True)
    }
    assert grid["channel", False] / grid["channel", True] == pytest.approx(240, abs=3)
    assert grid["grouped", True] > grid["grouped", False] > figure("RES-15 CPU Q8").value == 19.66
    assert grid["channel", True] / figure("RES-15 CPU Q8").value == pytest.approx(5, abs=0.3)


def test_rotation_lowers_the_loss_of_a_small_model() -> None:
    for tokens in (32, 64):
        plain, rotated = (figure(f"RES-14 {tokens}, {kind}").value for kind in ("plain", "rotated"))
        assert 1 - rotated / plain == pytest.approx(0.15, abs=0.015)
    assert 1 - figure("RES-13 rotated").value / figure("RES-13 plain").value == pytest.approx(0.46, abs=0.005)


def test_a_reset_is_milliseconds() -> None:
    assert figure("RES-39 reset").unit == "ms" and reset_ns() == 105e6


def test_imports_that_were_forced() -> None:
    row = figure("RES-37 prefill")
    assert (row.value, row.unit) == (58.73, "tok/s") and "imports forced, pp128" in row.configuration


def test_projections_of_attention_gain_most_by_compiling() -> None:
    before, after = (figure(f"RES-73 q, k, v or o, {when}").value for when in ("before", "after"))
    assert before / after == pytest.approx(3.49, abs=0.005)


@pytest.mark.parametrize(
    ("name", "evidence"),
    [
        ("whole-k-buffer", "ORK_FULLK_DEC"),
        ("sram-doorbell", "in ordinary memory"),
        ("task-callback", "5 to 22 %"),
        ("ws-transition", "7 us"),
        ("exp-offset", "on the host"),
        ("sram-leak", "30"),
        ("core-split", "coherent"),
    ],
)
def test_a_closed_hypothesis_names_what_closed_it(name: str, evidence: str) -> None:
    assert evidence in closed(name).evidence


def test_four_threads_on_big_cores_beat_eight() -> None:
    eight, four = (figure(f"RES-03 prefill, -t {threads}").value for threads in (8, 4))
    assert four / eight == pytest.approx(1.14, abs=0.005)
    assert figure("RES-02 decode").value == 12.8 > figure("RES-01 decode").value


def test_an_operation_keeps_its_length_beside_14_ms_of_cpu_work() -> None:
    configuration = figure("RES-42 wall, 64 reps").configuration
    alone = [int(word) for word in configuration.partition("NPU alone ")[2].partition(" us")[0].split(", ")]
    cpu = [int(word) for word in configuration.partition("CPU alone ")[2].partition(" us")[0].split(", ")]
    assert alone == [2720, 2744, 2750, 2743] and cpu[-1] == 14108
    assert max(alone) / min(alone) < 1.012
