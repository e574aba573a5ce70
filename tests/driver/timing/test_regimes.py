"""What binds an operation: submit, weights, preparation; and the bars that follow."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orkbench_tui.driver.timing.constants import value
from orkbench_tui.driver.timing.fill import crossover_rows, fill_ratio
from orkbench_tui.driver.timing.hops import feed_forward_hops, hop_lines, parse_hops
from orkbench_tui.driver.timing.programs import Shape, hardware_ns
from orkbench_tui.driver.timing.published import figure
from orkbench_tui.driver.timing.records import record
from orkbench_tui.driver.timing.regime import Help, Regime, floor_share, helped_by, hook_gain, regime
from orkbench_tui.driver.timing.shapes import REFERENCE_MODELS
from orkbench_tui.driver.timing.transfers import fill_ns, load_ns
from orkbench_tui.driver.timing.verification import tokens_accepted, verification, verify_shapes
from orkbench_tui.driver.timing.viability import viability
from orkbench_tui.errors import InvalidFileError


def test_the_regime_turns_at_the_submit_floor() -> None:
    assert [regime(us * 1e3) for us in (1, 20, 131)] == [Regime.MICRO] * 3
    assert [regime(us * 1e3) for us in (132, 500, 2750)] == [Regime.MONOLITHIC] * 3
    assert floor_share(132_000) == 0.5


def test_what_helps_depends_on_the_step_between() -> None:
    assert helped_by(2.75e6, cpu_between=True, independent=True) is Help.NOTHING
    assert helped_by(20e3, cpu_between=False, independent=True) is Help.CHAIN
    assert helped_by(20e3, cpu_between=True, independent=True) is Help.HOOK
    assert helped_by(20e3, cpu_between=True, independent=False) is Help.POLL


def test_a_kernel_callback_doubles_at_most_and_does_nothing_for_heavy_layers() -> None:
    assert hook_gain(112e3, 20e3) == pytest.approx(2)
    assert 1.04 < hook_gain(2.75e6, 20e3) < 1.05


def test_the_share_of_the_floor_falls_in_the_published_order() -> None:
    published = [v for name, v in record("INV-138").figures.items() if name != "ceiling x"]
    shapes = (Shape(1, 512, 512), Shape(128, 2048, 2048), Shape(256, 4096, 4096))
    shares = [100 * floor_share(hardware_ns(shape)) for shape in shapes]
    assert published == sorted(published, reverse=True) and shares == sorted(shares, reverse=True)
    assert shares[0] > 80 and shares[2] < 6


@pytest.mark.parametrize(("K", "N"), [(2048, 768), (768, 2048), (4096, 1408), (2048, 2048)])
def test_preparing_takes_6_to_26_times_a_matmul_of_few_rows_and_less_than_one_of_many(K: int, N: int) -> None:
    for M in (1, 8, 32, 64, 128):
        assert 6 <= fill_ratio(Shape(M, K, N)) <= 26
    rows = crossover_rows(K, N)
    assert 512 < rows <= 8192 and fill_ratio(Shape(rows, K, N)) <= 1 < fill_ratio(Shape(rows // 2, K, N))


def test_loading_from_a_cold_disk_and_from_the_page_cache() -> None:
    size = 4 << 30
    warm, cold = load_ns(size, warm=True), load_ns(size)
    assert warm == pytest.approx(fill_ns(size), rel=0.006), "mapped and warm is memory"
    assert cold == pytest.approx(size / 0.5, rel=0.001), "a published NVMe is the floor"
    mapped, read = (load_ns(size, mapped=kind, disk_rate=100) / warm for kind in (True, False))
    assert (mapped, read) == pytest.approx((1.4, 2.2), abs=0.01)
    disk = record("INV-101").figures
    assert (disk["mapped, cold"], disk["read, cold"]) == (value("mapped_cold"), value("read_cold"))
    assert disk["NVMe GB/s"] == value("disk_cold") and disk["mapped, warm"] - 1 == pytest.approx(0.005)


def test_neither_form_of_int4_clears_the_bar() -> None:
    base = figure("RES-15 CPU Q8").value
    grouped = viability(16, figure("RES-15 grouped").value, base)
    assert not grouped.viable and "16 times the submits" in grouped.reasons[0] and len(grouped.reasons) == 1
    for name in ("channel", "channel, rotated"):
        found = viability(1, figure(f"RES-15 {name}").value, base)
        assert not found.viable and "perplexity" in found.reasons[0] and len(found.reasons) == 1
    assert len(viability(16, figure("RES-15 grouped, rotated").value, base).reasons) == 2


def test_a_precision_near_both_clears_it_and_nonsense_is_refused() -> None:
    assert viability(2, 12.0, 11.0).viable
    for figures in ((0, 1, 1), (1, -1, 1), (1, 1, 0)):
        with pytest.raises(ValueError, match="positive"):
            viability(*figures)


def test_the_workload_of_a_verification_is_a_forward_of_few_rows() -> None:
    model = REFERENCE_MODELS["qwen3-1.7b"]
    shapes = verify_shapes(model, 5)
    assert {shape.M for shape in shapes} == {5}
    assert sum(shape.weight_bytes for shape in shapes) == model.active_weights + model.head_weights


@pytest.mark.parametrize("drafts", [1, 3, 7])
def test_verifying_costs_hardly_more_than_one_row_and_gains_what_is_accepted(drafts: int) -> None:
    found = verification(REFERENCE_MODELS["qwen3-1.7b"], drafts, 0.8)
    assert found.rows == drafts + 1
    assert found.forward / found.one_row < 1.1, "the weights are the time"
    assert found.gain > 0.9 * found.tokens
    assert 1.5 < found.cores <= 3


def test_accepted_tokens_are_those_up_to_the_first_wrong_one() -> None:
    assert tokens_accepted(4, 1.0) == 5 and tokens_accepted(4, 0.0) == 1
    assert tokens_accepted(2, 0.5) == 1.75
    for drafts, acceptance in ((-1, 0.5), (1, 1.5), (1, -0.1)):
        with pytest.raises(ValueError, match="acceptance"):
            tokens_accepted(drafts, acceptance)


def test_bytes_of_the_hops_are_both_widths_of_the_feed_forward() -> None:
    layer = record("INV-279").figures
    up, down = feed_forward_hops(1024, 3072, 1024, gate_up_us=layer["gate and up"], down_us=layer["down"])
    assert (up.weight_bytes, down.weight_bytes) == (2 * 1024 * 3072, 3072 * 1024)
    assert up.gb_per_s == pytest.approx(figure("RES-70 gate and up").value, abs=0.15)
    with pytest.raises(ValueError, match="positive"):
        feed_forward_hops(1, 1, 1, gate_up_us=0, down_us=1)


@given(st.integers(1, 1 << 14), st.integers(1, 1 << 14), st.floats(0.001, 1e6), st.floats(0.001, 1e6))
def test_hops_are_read_as_they_were_written(K: int, Nff: int, up_us: float, down_us: float) -> None:
    hops = feed_forward_hops(K, Nff, K, gate_up_us=up_us, down_us=down_us)
    again = parse_hops("loading\n" + hop_lines(hops) + "done\n")
    assert [(hop.name, hop.weight_bytes) for hop in again] == [(hop.name, hop.weight_bytes) for hop in hops]
    assert [hop.us for hop in again] == pytest.approx([up_us, down_us], abs=0.001)


@pytest.mark.parametrize("text", ["", "down 12 bytes", "down 12 bytes 0 us"])
def test_a_profile_without_hops_is_an_invalid_file(text: str) -> None:
    with pytest.raises(InvalidFileError):
        parse_hops(text)
