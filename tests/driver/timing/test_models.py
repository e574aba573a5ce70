"""Whole models, transfers and attention."""

from __future__ import annotations

import pytest

from orkbench_tui.driver.timing.attention import attention_gain
from orkbench_tui.driver.timing.models import decode, npu_decode_ns, prefill
from orkbench_tui.driver.timing.shapes import REFERENCE_MODELS, LinearShape, ModelShape
from orkbench_tui.driver.timing.submits import (
    async_decode_ns,
    doorbell_speedup,
    overlap_wall_ns,
    pipeline_ceiling,
    submit_split,
)
from orkbench_tui.driver.timing.transfers import fill_ns, load_ns


def test_reference_models_have_their_known_sizes() -> None:
    billions = {name: (m.layer_weights + m.head_weights) / 1e9 for name, m in REFERENCE_MODELS.items()}
    assert billions["qwen2.5-7b"] == pytest.approx(7.07, abs=0.01)
    assert billions["qwen3-1.7b"] == pytest.approx(1.72, abs=0.01)
    assert billions["qwen3-0.6b"] == pytest.approx(0.596, abs=0.002)


def test_prefill_is_the_sum_of_its_batches() -> None:
    model = REFERENCE_MODELS["qwen3-0.6b"]
    one, two = prefill(model, 256), prefill(model, 512, batch=256)
    assert two.run == pytest.approx(2 * one.run)
    assert two.attention > 2 * one.attention
    assert two.total == pytest.approx(two.quantize + two.run + two.dequantize + two.attention + two.between)


def test_small_batches_are_slower() -> None:
    model = REFERENCE_MODELS["qwen2.5-7b"]
    speeds = [prefill(model, 512, batch=batch).tokens_per_s for batch in (64, 128, 256, 512)]
    assert speeds == sorted(speeds)


def test_experts_cost_what_the_token_uses() -> None:
    shared = ModelShape("moe", 2, 256, 256, 1000, (LinearShape(256, 512, 8, 2),))
    assert shared.active_weights * 4 == shared.layer_weights
    assert shared.inputs == 2 * 2 * 256
    whole = ModelShape("dense", 2, 256, 256, 1000, (LinearShape(256, 512, 8),))
    assert prefill(shared, 64).run < prefill(whole, 64).run


def test_decode_streams_every_active_byte() -> None:
    model = REFERENCE_MODELS["qwen3-0.6b"]
    eight, four = decode(model), decode(model, bytes_per_weight=0.5)
    assert eight.typical == pytest.approx(2 * four.typical, rel=0.01)
    assert eight.best < eight.typical
    assert decode(model, context=4096).typical > eight.typical
    assert npu_decode_ns(model) < eight.typical


@pytest.mark.parametrize(("compute_us", "gain"), [(2, 19), (20, 6), (130, 1.9), (500, 1.25), (2750, 1.05)])
def test_what_not_waiting_gains(compute_us: float, gain: float) -> None:
    assert doorbell_speedup(compute_us * 1000) == pytest.approx(gain, rel=0.03)


def test_bounds_of_overlap() -> None:
    assert overlap_wall_ns(2750, 3526) == 3526
    assert pipeline_ceiling(11, 94, 11) == pytest.approx(1.234, abs=0.001)
    assert pipeline_ceiling(11, 18, 2) == pytest.approx(1.722, abs=0.001)
    assert 1e3 / async_decode_ns(72, 141) == pytest.approx(7.1, abs=0.05)


def test_the_submit_is_waiting() -> None:
    prepare, wait, write_out = submit_split().shares
    assert (round(prepare, 2), round(wait, 2), round(write_out, 2)) == (0.02, 0.97, 0.01)


@pytest.mark.parametrize(("context", "gain"), [(512, 1.0), (768, 1.8), (1024, 2.6), (2048, 4.2), (4096, 7.4)])
def test_attention_crosses_over_at_512(context: int, gain: float) -> None:
    assert attention_gain(context, resident=False) == pytest.approx(gain)


def test_short_contexts_stay_on_the_cpu() -> None:
    assert attention_gain(256, resident=False) < 1 < attention_gain(512, resident=True)
    assert attention_gain(0, resident=False) == 0


def test_loading_reads_the_disk_unless_warm() -> None:
    cold, warm = load_ns(1 << 30), load_ns(1 << 30, warm=True)
    assert cold / warm > 10
    assert load_ns(1 << 30, domains=5) - cold == pytest.approx(4 * 2_225_000)
    assert fill_ns(100, cached=False) / fill_ns(100) == pytest.approx(8.3, abs=0.1)
