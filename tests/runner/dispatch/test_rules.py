"""Every reason for a place, one by one, and that costs decide the rest."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orkbench_tui.driver.soc import RK3588
from orkbench_tui.errors import UsageError
from orkbench_tui.native.scan_steps import ScanShape
from orkbench_tui.runner.dispatch.costs import DispatchCosts, attention_crossover
from orkbench_tui.runner.dispatch.dispatcher import EXACT, MOVABLE, Dispatcher, parse_overrides
from orkbench_tui.runner.dispatch.unit import AttentionShape, Op, Place, Source, Unit

WIDE = (18944, 18944)
EIGHT = Source("Q8_0", 8)


MAMBA = ScanShape(heads=24, head_dim=64, state_size=128, groups=1, chunk=64)
"""Of Mamba-2 130M."""


SMALL = AttentionShape(heads=9, kv_heads=3, head_dim=64)
LARGE = AttentionShape(heads=32, kv_heads=32, head_dim=128)


def gate_up(M: int, K: int = 3584, N: tuple[int, ...] = WIDE, source: Source = EIGHT) -> Unit:
    return Unit(Op.GATE_UP, M, K, N, source)


@pytest.mark.parametrize(
    ("unit", "rule", "words"),
    [
        (gate_up(1), "one-row", "7.5 tok/s where the CPU did 16.6"),
        (Unit(Op.HEAD, 1, 3584, (152064,)), "one-row", "only the last token"),
        (Unit(Op.NORM, 128, width=3584), "between", "no matmul"),
        (Unit(Op.EXPERTS, 128, 2048, (768,) * 24), "experts", "few rows go to each expert"),
        (gate_up(128, K=128, N=(512, 512)), "short-k", "GRD-14"),
        (gate_up(128, K=4096, N=(1, 1)), "padding", "32.0 times the work"),
        (gate_up(2, K=576, N=(576,)), "cost", "a submit alone is 132 us"),
        (gate_up(2, K=576, N=(576,)), "cost", "times faster here"),
        (Unit(Op.ATTENTION, 128, context=512, width=576), "attention", "another part of the prompt"),
        (Unit(Op.SCAN, 256, scan=MAMBA), "scan", "24 heads"),
        (
            Unit(Op.SCAN, 256, scan=replace(MAMBA, heads=64, head_dim=16, state_size=32)),
            "scan",
            "too small to pay",
        ),
        (Unit(Op.SCAN, 256, scan=replace(MAMBA, state_size=48)), "scan-tiles", "states of 48"),
        (Unit(Op.SCAN, 1, scan=MAMBA), "one-row", "two submits a layer"),
    ],
)
def test_why_something_is_on_the_cpu(unit: Unit, rule: str, words: str) -> None:
    decision = Dispatcher().decide(unit)
    assert (decision.place, decision.rule) == (Place.CPU, rule)
    assert words in decision.why


def test_wide_matmuls_of_many_rows_go_to_the_npu() -> None:
    decision = Dispatcher().decide(gate_up(256))
    assert (decision.place, decision.rule) == (Place.NPU, "cost")
    assert decision.npu_us and decision.cpu_us and decision.npu_us < decision.cpu_us
    assert "times faster there (predicted)" in decision.why


@pytest.mark.parametrize(("heads", "groups"), [(64, 1), (80, 1), (128, 8)])
def test_scans_of_the_large_published_models_go_to_the_npu(heads: int, groups: int) -> None:
    unit = Unit(Op.SCAN, 256, scan=replace(MAMBA, heads=heads, groups=groups))
    decision = Dispatcher().decide(unit)
    assert (decision.place, decision.rule) == (Place.NPU, "scan")
    assert "published to pay from 64 on" in decision.why
    assert Dispatcher(parse_overrides("scan=cpu")).decide(unit).place is Place.CPU


def test_a_setting_may_bring_any_scan_of_whole_tiles_there() -> None:
    asked = Dispatcher(parse_overrides("scan=npu"))
    assert asked.decide(Unit(Op.SCAN, 256, scan=MAMBA)).rule == "override"
    assert asked.decide(Unit(Op.SCAN, 256, scan=replace(MAMBA, head_dim=24))).rule == "scan-tiles"


@pytest.mark.parametrize(
    ("unit", "place", "words"),
    [
        (Unit(Op.ATTENTION, 1, context=256, width=576), Place.NPU, "codes that stay there"),
        (Unit(Op.ATTENTION, 1, context=255, width=576), Place.CPU, "256 up to 8192 (GRD-15)"),
        (Unit(Op.ATTENTION, 1, context=8193, width=576), Place.CPU, "256 up to 8192 (GRD-15)"),
        (Unit(Op.ATTENTION, 64, context=512, width=576), Place.CPU, "only single tokens"),
        (
            Unit(Op.ATTENTION, 1, context=512, attention=replace(SMALL, why_not="its scores are capped")),
            Place.CPU,
            "but its scores are capped",
        ),
    ],
)
def test_attention_goes_there_where_it_is_asked_for_and_can(unit: Unit, place: Place, words: str) -> None:
    decision = Dispatcher(parse_overrides("attention=npu")).decide(unit)
    assert (decision.place, decision.rule) == (place, "attention") and words in decision.why
    assert Dispatcher(parse_overrides("all=npu")).decide(unit).place is Place.CPU


def test_a_chip_of_shorter_products_attends_to_fewer_keys() -> None:
    small = Dispatcher(parse_overrides("attention=npu"), soc=replace(RK3588, max_k_int8=4096))
    assert small.decide(Unit(Op.ATTENTION, 1, context=4096, attention=SMALL)).place is Place.NPU
    beyond = small.decide(Unit(Op.ATTENTION, 1, context=4097, attention=SMALL))
    assert beyond.place is Place.CPU and "256 up to 4096" in beyond.why and beyond.npu_us is None


def test_without_an_npu_everything_is_on_the_cpu() -> None:
    for unit in (gate_up(256), gate_up(1), Unit(Op.NORM, 4, width=8)):
        assert Dispatcher(npu=False).decide(unit).rule == "no-npu"


def test_overrides_beat_costs_and_short_k_and_not_what_has_one_way() -> None:
    everything = Dispatcher(parse_overrides("all=npu"))
    assert everything.decide(gate_up(16, K=128, N=(96,))).place is Place.NPU
    assert everything.decide(gate_up(1)).rule == "one-row"
    assert everything.decide(Unit(Op.ATTENTION, 8, context=64, width=64)).place is Place.CPU
    away = Dispatcher(parse_overrides("gate-up = cpu"))
    decision = away.decide(gate_up(256))
    assert (decision.place, decision.rule, decision.why) == (
        Place.CPU,
        "override",
        "the setting dispatch says gate-up=cpu",
    )
    assert away.decide(Unit(Op.DOWN, 256, 18944, (3584,))).place is Place.NPU


def test_low_bit_sources_stay_here_when_asked() -> None:
    four = Source("Q4_1", 4)
    strict, usual = Dispatcher(parse_overrides("low-bit=cpu")), Dispatcher()
    assert usual.decide(gate_up(256, source=four)).place is Place.NPU
    decision = strict.decide(gate_up(256, source=four))
    assert (decision.place, decision.rule) == (Place.CPU, "low-bit") and "Q4_1, 4 bits" in decision.why
    assert strict.decide(gate_up(256, source=EIGHT)).place is Place.NPU
    assert strict.decide(gate_up(256, source=Source("Q5_1", 5))).place is Place.NPU
    assert strict.decide(gate_up(256, source=Source("", None))).place is Place.NPU


def unit_slower_there_by(low: float, high: float) -> Unit:
    costs = DispatchCosts()

    def ratio(unit: Unit) -> float:
        npu, cpu = costs.npu_ns(unit), costs.cpu_ns(unit)
        assert npu is not None and cpu is not None
        return npu / cpu

    return next(u for u in (gate_up(M, 576, (1536, 1536)) for M in range(2, 64)) if low < ratio(u) < high)


@pytest.mark.parametrize(("low", "high", "words"), [(0.92, 1.08, "about as fast"), (1.2, 1.9, "the doubt")])
def test_live_occupancy_decides_what_costs_do_not(low: float, high: float, words: str) -> None:
    unit = unit_slower_there_by(low, high)
    asked: list[int] = []

    def busy() -> bool:
        asked.append(1)
        return True

    free, taken = Dispatcher(), Dispatcher(busy=busy)
    assert free.decide(unit).place is Place.NPU
    assert words in free.decide(unit).why and "the NPU is free" in free.decide(unit).why
    assert taken.decide(unit).place is Place.CPU and "another program" in taken.decide(unit).why
    assert taken.idle().decide(unit).place is Place.NPU
    asked.clear()
    assert taken.decide(gate_up(256)).place is Place.NPU and not asked


def test_one_rows_attention_says_what_the_npu_would_gain() -> None:
    decide = Dispatcher().decide
    short = decide(Unit(Op.ATTENTION, 1, context=100, width=2048))
    assert short.place is Place.CPU and "below 256 the NPU would be slower" in short.why
    for context, gain in ((512, "1.9"), (1024, "3.4"), (2048, "7.3")):
        long = decide(Unit(Op.ATTENTION, 1, context=context, width=2048))
        assert long.place is Place.CPU and f"{gain} times faster that is published" in long.why


def test_what_is_published_over_scalar_code_is_no_promise_for_this_kernel() -> None:
    """A head is two runs there, which read keys four or eight times as wide; here all that share keys read them once."""
    for shape, context, slower in ((SMALL, 1000, "8.8"), (LARGE, 1000, "1.6"), (LARGE, 8192, "1.2")):
        unit = Unit(Op.ATTENTION, 1, context=context, width=shape.heads * shape.head_dim, attention=shape)
        decision = Dispatcher().decide(unit)
        assert decision.place is Place.CPU and f"{slower} times slower (predicted)" in decision.why
        assert decision.npu_us is not None and decision.cpu_us is not None
        assert decision.npu_us > decision.cpu_us


def test_the_crossover_of_attention_is_where_the_published_points_say() -> None:
    assert attention_crossover(resident=False) == 512
    assert attention_crossover(resident=True) == 256
    costs = DispatchCosts()

    def gain(context: int) -> float:
        found = costs.attention_gain(Unit(Op.ATTENTION, 1, context=context, width=2048), resident=False)
        assert found is not None
        return found

    assert (gain(512), gain(1024), gain(2048)) == pytest.approx((1.0, 2.6, 4.2))
    assert gain(256) < 1 < gain(600)
    times = [costs.cpu_ns(Unit(Op.ATTENTION, 1, context=c, width=2048)) for c in (512, 1024)]
    assert times[1] == pytest.approx(2 * times[0], rel=0.01), "the CPU's time grows with the length"


@settings(deadline=None)
@given(st.integers(16, 512), st.sampled_from([512, 576, 1536, 3584]), st.sampled_from([256, 1536, 18944]))
def test_more_rows_never_bring_a_matmul_back_to_the_cpu(M: int, K: int, N: int) -> None:
    dispatcher = Dispatcher()
    if dispatcher.decide(gate_up(M, K, (N,))).place is Place.NPU:
        assert dispatcher.decide(gate_up(2 * M, K, (N,))).place is Place.NPU


def test_overrides_are_read_and_nonsense_is_named() -> None:
    assert parse_overrides("") == {}
    assert parse_overrides("down=npu, low-bit=cpu") == {"down": Place.NPU, "low-bit": Place.CPU}
    assert set(parse_overrides("all=cpu")) == set(MOVABLE)
    assert set(parse_overrides("all=npu")) == set(EXACT) == set(MOVABLE) - {Op.SCAN, Op.ATTENTION}
    assert parse_overrides("all=npu,scan=npu")["scan"] is Place.NPU
    for text in ("down", "down=gpu", "norm=npu", "low-bit=npu", "=", "down=npu,down=cpu", "all=npu,down=cpu"):
        with pytest.raises(UsageError):
            parse_overrides(text)
