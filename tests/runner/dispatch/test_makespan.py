"""Dispatch and overlap together in virtual time: neither place alone would be done sooner."""

from __future__ import annotations

import pytest

from orkbench_tui.driver.timing.shapes import REFERENCE_MODELS, dense
from orkbench_tui.runner.dispatch.costs import DispatchCosts
from orkbench_tui.runner.dispatch.dispatcher import Dispatcher, parse_overrides
from orkbench_tui.runner.dispatch.unit import Op, Place, Unit
from orkbench_tui.runner.overlap.costs import CostedStep
from orkbench_tui.runner.overlap.order import Room, StepFacts
from orkbench_tui.runner.overlap.predict import virtual_run

SMALL = dense("smollm2", layers=30, embedding=576, heads=9, kv_heads=3, head=64, ff=1536, vocabulary=49152)
MODELS = [*REFERENCE_MODELS.values(), SMALL]
IDLE = (0.0, 0.0, 0.0)


def steps(model, rows: int, dispatcher: Dispatcher, layers: int = 4) -> list[CostedStep]:
    """A prompt's matmuls and attention, each where the dispatcher says, at its predicted time there."""
    q, kv, out, wide, down = model.linears
    groups = (
        (Op.QKV, q.K, (q.N, kv.N, kv.N)),
        (Op.ATTENTION_OUT, out.K, (out.N,)),
        (Op.GATE_UP, wide.K, (wide.N, wide.N)),
        (Op.DOWN, down.K, (down.N,)),
    )
    attention = DispatchCosts().cpu_ns(Unit(Op.ATTENTION, rows, context=rows, width=model.attention_width))
    assert attention is not None
    found = [CostedStep(StepFacts(Room.CPU), 0.0, IDLE)]
    for layer in range(layers):
        for op, K, N in groups:
            decision = dispatcher.decide(Unit(op, rows, K, N))
            there = decision.place is Place.NPU
            microseconds = decision.npu_us if there else decision.cpu_us
            assert microseconds is not None
            room = Room.NPU if there else Room.CPU
            found.append(CostedStep(StepFacts(room), 1e3 * microseconds, IDLE))
            if op is Op.QKV:
                found.append(CostedStep(StepFacts(Room.CPU, layer, layer), attention, IDLE))
    return [*found, CostedStep(StepFacts(Room.CPU), 0.0, IDLE)]


@pytest.mark.parametrize("rows", [16, 32, 64, 128, 256])
@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)
def test_as_dispatched_and_overlapped_is_done_before_either_place_alone(model, rows: int) -> None:
    def makespan(overrides: str) -> float:
        batch = steps(model, rows, Dispatcher(parse_overrides(overrides)))
        return virtual_run([batch] * 4, 2)

    routed, cpu, npu = (makespan(overrides) for overrides in ("", "all=cpu", "all=npu"))
    longest = max(step.ns for step in steps(model, rows, Dispatcher()))
    # Few rows of a small model: work goes to a free NPU within the doubt about the CPU's rate.
    doubt = 1.1 if rows <= 32 else 1.0
    assert routed <= doubt * min(cpu, npu) + longest, "no worse than the better place alone, within one step"


def test_no_room_waits_while_the_other_has_two_steps_it_could_run() -> None:
    model = REFERENCE_MODELS["qwen2.5-7b"]
    batch = steps(model, 128, Dispatcher())
    busy = {room: 4 * sum(step.ns for step in batch if step.facts.room is room) for room in Room}
    wall = virtual_run([batch] * 4, 2)
    assert wall < 1.15 * max(busy.values()), "the busier room is nearly never idle"
