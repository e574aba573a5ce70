"""The order of micro-batches in flight: causality, one step a room, nothing idle without need."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orkbench_tui.runner.overlap.micro_batches import LEAST_TOKENS, in_flight, micro_batches, serial_chunks
from orkbench_tui.runner.overlap.order import Order, Room, StepFacts

CPU, NPU = Room.CPU, Room.NPU


def layers(count: int) -> list[StepFacts]:
    """Steps as a dense model has them: four matmuls a layer, attention in the second step between them."""
    steps = [StepFacts(CPU)]
    for layer in range(count):
        steps += [StepFacts(NPU), StepFacts(CPU, layer, layer)]
        steps += [
            StepFacts(NPU),
            StepFacts(CPU),
            StepFacts(NPU),
            StepFacts(CPU),
            StepFacts(NPU),
            StepFacts(CPU),
        ]
    return steps


def run(order: Order, choose, limit: int = 10_000) -> list[tuple[int, int]]:
    """Starts whatever may start and ends what ``choose`` picks; the steps in the order they ended."""
    running: list[tuple[int, int]] = []
    ended: list[tuple[int, int]] = []
    while not order.complete:
        limit -= 1
        assert limit, "it does not come to an end"
        for room in Room:
            if (ready := order.next_for(room)) is not None:
                order.start(ready[0])
                running.append(ready)
        assert running, "nothing runs and nothing may start"
        batch, step = running.pop(choose(len(running)))
        order.finish(batch)
        ended.append((batch, step))
    return ended


@settings(deadline=None)
@given(st.data(), st.integers(1, 5), st.integers(1, 4), st.integers(1, 3))
def test_any_timing_keeps_causality_and_ends(data, batches: int, in_flight: int, depth: int) -> None:
    facts = layers(depth)
    order = Order([facts] * batches, in_flight)
    ended = run(order, lambda count: data.draw(st.integers(0, count - 1)))
    assert sorted(ended) == [(b, s) for b in range(batches) for s in range(len(facts))]
    place = {pair: index for index, pair in enumerate(ended)}
    for (batch, step), index in place.items():
        if step:
            assert place[batch, step - 1] < index
        if batch and facts[step].attends >= 0:
            assert place[batch - 1, step] < index, "it attended before the one before had stored its keys"
        if batch >= in_flight and not step:
            assert place[batch - in_flight, len(facts) - 1] < index, "the lane was still in use"


def test_a_room_takes_one_step_and_the_oldest_first() -> None:
    order = Order([layers(1)] * 2, 2)
    assert order.next_for(NPU) is None
    assert order.next_for(CPU) == (0, 0)
    order.start(0)
    assert order.next_for(CPU) is None, "the room is taken"
    order.finish(0)
    assert order.next_for(CPU) == (1, 0) and order.next_for(NPU) == (0, 1)
    order.start(1)
    order.finish(1)
    assert order.next_for(NPU) == (0, 1)


def test_the_second_waits_for_the_first_ones_keys_of_that_layer_alone() -> None:
    steps = [StepFacts(CPU), StepFacts(CPU, attends=0, remembers=0), StepFacts(CPU)]
    order = Order([[StepFacts(NPU), *steps], steps], 2)
    order.start(1)
    order.finish(1)
    assert order.next_for(CPU) is None
    for _ in range(3):
        order.start(0)
        order.finish(0)
    assert order.next_for(CPU) == (0, 3)
    order.start(0)
    order.finish(0)
    assert order.next_for(CPU) == (1, 1)


def test_after_a_stop_what_is_under_way_ends_and_nothing_begins() -> None:
    order = Order([layers(1)] * 4, 2)
    for batch in (0, 1, 0):
        order.start(batch)
        order.finish(batch)
    order.begin_no_more()
    ended = run(order, lambda _: 0)
    assert {batch for batch, _ in ended} == {0, 1} and order.finished == 2


def test_what_makes_no_sense_is_refused() -> None:
    with pytest.raises(ValueError, match="in flight"):
        Order([layers(1)], 0)
    with pytest.raises(ValueError, match="without steps"):
        Order([[]], 1)


@settings(deadline=None)
@given(st.integers(LEAST_TOKENS, 3000))
def test_micro_batches_cover_the_prompt_in_order_without_single_rows(tokens: int) -> None:
    sizes = micro_batches(tokens)
    assert sum(sizes) == tokens and len(sizes) >= 2
    assert all(2 <= size <= 128 for size in sizes)


def test_sizes() -> None:
    assert micro_batches(64) == [32, 32]
    assert micro_batches(100) == [64, 36]
    assert micro_batches(257) == [128, 127, 2]
    assert [in_flight(count) for count in (2, 7, 8, 100)] == [2, 2, 3, 3]
    assert serial_chunks(600, 256) == [256, 256, 88]
    with pytest.raises(ValueError, match="at least 64"):
        micro_batches(63)
