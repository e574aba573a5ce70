"""The virtual clock: published serial figures first, then what overlap makes of them, and its bounds."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orkbench_tui.driver.timing.models import prefill
from orkbench_tui.driver.timing.published import figure
from orkbench_tui.driver.timing.shapes import REFERENCE_MODELS, LinearShape, ModelShape
from orkbench_tui.runner.bench.utilization import utilization_lines
from orkbench_tui.runner.overlap.costs import CostedStep, in_place_costs, prompt_steps, published_costs
from orkbench_tui.runner.overlap.micro_batches import micro_batches
from orkbench_tui.runner.overlap.order import Room, StepFacts
from orkbench_tui.runner.overlap.predict import predict_utilization, reference_tables, virtual_run

SEVEN = REFERENCE_MODELS["qwen2.5-7b"]


def cpu(ns: float, layer: int = -1) -> CostedStep:
    return CostedStep(StepFacts(Room.CPU, layer, layer), ns, (0.0,) * 3)


def npu(ns: float) -> CostedStep:
    return CostedStep(StepFacts(Room.NPU), ns, (ns,) * 3)


def test_the_published_serial_prefill_comes_out_first() -> None:
    serial = predict_utilization(SEVEN, published_costs(), [256, 256]).serial
    assert serial.tokens_per_s == pytest.approx(figure("RES-77 pp512").value, rel=0.03)
    published = [figure(f"RES-76 core {core}").value / 100 for core in range(3)]
    assert all(abs(got - want) < 0.1 for got, want in zip(serial.cores, published, strict=True))
    assert serial.npu == pytest.approx(prefill(SEVEN, 512).npu_busy, abs=0.02)
    assert serial.cpu + serial.npu < 1, "the rest is the driver's copying, in which both wait"


def test_overlap_keeps_the_npu_busy_at_least_65_percent_of_a_7b_prefill() -> None:
    for tokens in (512, 1024):
        table = predict_utilization(SEVEN, in_place_costs(), micro_batches(tokens))
        assert min(table.overlapped.cores) >= 0.65
        assert table.overlapped.npu > table.serial.npu + 0.1 and table.speedup > 1.1
    stack = predict_utilization(SEVEN, published_costs(), [256, 256])
    assert stack.overlapped.npu > stack.serial.npu + 0.1


@pytest.mark.parametrize("tokens", [1024, 2048])
def test_a_third_micro_batch_fills_long_prompts(tokens: int) -> None:
    rows = micro_batches(tokens)
    own, two = (predict_utilization(SEVEN, in_place_costs(), rows, in_flight=n) for n in (None, 2))
    assert own.overlapped.in_flight == 3 and own.overlapped.npu > two.overlapped.npu + 0.03


@pytest.mark.parametrize("costs", [published_costs(), in_place_costs()], ids=lambda costs: costs.name)
@pytest.mark.parametrize("in_flight", [1, 2, 3])
def test_no_schedule_beats_its_busier_room(costs, in_flight) -> None:
    rows = [128] * 4
    table = predict_utilization(SEVEN, costs, rows, in_flight=in_flight)
    steps = [
        step
        for index, count in enumerate(rows)
        for step in prompt_steps(SEVEN, count, 128 * index, costs, copies_on_cpu=True)
    ]
    total = {room: sum(s.ns for s in steps if s.facts.room is room) for room in Room}
    wall = table.overlapped.wall_ns
    assert max(total.values()) <= wall * (1 + 1e-9) and wall <= sum(total.values()) * (1 + 1e-9)
    assert (wall == pytest.approx(sum(total.values()))) == (in_flight == 1)
    assert table.overlapped.cpu == pytest.approx(total[Room.CPU] / wall)


@pytest.mark.parametrize(("quant", "run", "dequant", "published"), [(11, 94, 11, 1.20), (11, 18, 2, 1.64)])
def test_double_buffering_reaches_what_the_probe_measured_and_not_its_ceiling(
    quant: float, run: float, dequant: float, published: float
) -> None:
    # Independent matmuls, as in the study's probe: each is a micro-batch of its own.
    matmul = [cpu(quant), npu(run), cpu(dequant)]
    count = 24
    serial = virtual_run([matmul] * count, 1)
    assert serial == count * (quant + run + dequant)
    ceiling = (quant + run + dequant) / max(run, quant + dequant)
    gain = serial / virtual_run([matmul] * count, 2)
    assert 0.93 * ceiling < gain <= ceiling
    assert gain == pytest.approx(published, rel=0.06)


def test_the_backends_own_totals_bound_it_at_15_percent() -> None:
    quant, dequant, run = 2822.0, 2143.0, 32521.0
    pieces = 200
    matmul = [cpu(quant / pieces), npu(run / pieces), cpu(dequant / pieces)]
    gain = virtual_run([matmul] * pieces, 1) / virtual_run([matmul] * pieces, 2)
    assert (quant + dequant) / run == pytest.approx(0.15, abs=0.005)
    assert gain == pytest.approx(1.15, abs=0.01)


def test_a_chain_of_decode_steps_gains_nothing_and_two_streams_are_bound_by_the_cpu() -> None:
    halves = [npu(72.0 / 28), cpu(141.0 / 28)] * 28
    token = [*itertools.chain(*zip(halves[::2], halves[1::2], strict=True))]
    # Serial decode: the next token needs this one, so it is one stream.
    assert virtual_run([token * 4], 2) == pytest.approx(4 * 213.0)
    independent = virtual_run([token] * 40, 2) / 40
    assert 141.0 <= independent < 150.0
    assert 1000 / independent < 12.8, "the way that ships decodes faster than the bound"


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.floats(0.1, 50), st.floats(0.1, 50)), min_size=1, max_size=12),
    st.integers(1, 6),
)
def test_overlap_never_takes_longer_than_the_serial_order(times, batches: int) -> None:
    steps = [step for layer, (a, b) in enumerate(times) for step in (cpu(a, layer), npu(b))]
    serial = virtual_run([steps] * batches, 1)
    assert virtual_run([steps] * batches, 2) <= serial * (1 + 1e-9)


def test_cores_differ_by_the_groups_of_columns_dealt_to_them() -> None:
    steps = prompt_steps(SEVEN, 64, 0, in_place_costs(), copies_on_cpu=False)
    # The down projection: 3584 columns are 112 groups, dealt 38, 37 and 37.
    down = max((step for step in steps if step.facts.room is Room.NPU), key=lambda step: step.ns)
    assert down.cores[0] > down.cores[1] == down.cores[2]
    assert down.cores[1] / down.cores[0] == pytest.approx(37 / 38)
    assert down.ns > down.cores[0]


def test_what_cannot_be_predicted_is_refused() -> None:
    with pytest.raises(ValueError, match="micro-batches"):
        predict_utilization(SEVEN, in_place_costs(), [])
    with pytest.raises(ValueError, match="rows"):
        predict_utilization(SEVEN, in_place_costs(), [0, 5])
    experts = ModelShape("moe", 1, 64, 64, 100, (LinearShape(64, 64, 8, 2),))
    with pytest.raises(ValueError, match="moe is not a dense model"):
        predict_utilization(experts, in_place_costs(), [64])


def test_the_bench_shows_both_orders_beside_the_published_shares() -> None:
    stack, own = reference_tables()
    assert own.overlapped.npu > 0.65 > stack.serial.npu
    lines = utilization_lines([])
    for table, costs in ((stack, "published stack"), (own, "this driver")):
        for shares in (table.serial, table.overlapped):
            (line,) = [line for line in lines if line.startswith(f"7B {shares.name}, {costs}")]
            assert " / ".join(f"{100 * core:.0f}" for core in shares.cores) in line
            assert line.endswith("predicted")


def test_with_two_streams_the_cpu_works_in_the_shadow_of_the_npu() -> None:
    """The second stream's part on the CPU fits beside the first one's on the NPU: only the first step is seen."""
    stream = [step for layer in range(8) for step in (cpu(2.0, layer), npu(3.0))]
    assert virtual_run([stream] * 2, 2) == pytest.approx(2 * 8 * 3.0 + 2.0)
    assert virtual_run([stream], 2) == pytest.approx(8 * 5.0), "one alone leaves the NPU idle between steps"
