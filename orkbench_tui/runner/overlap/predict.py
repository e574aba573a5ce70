"""NPU and CPU busy shares of a prompt, serial and overlapped, in virtual time: nothing runs.

The schedule is the engine's own ``Order``; only what steps cost is from a table, so every figure is
``predicted``.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

from orkbench_tui.driver.timing.shapes import REFERENCE_MODELS, ModelShape
from orkbench_tui.runner.overlap.costs import (
    CostedStep,
    PrefillCosts,
    in_place_costs,
    prompt_steps,
    published_costs,
)
from orkbench_tui.runner.overlap.micro_batches import in_flight as engine_in_flight
from orkbench_tui.runner.overlap.micro_batches import micro_batches
from orkbench_tui.runner.overlap.order import Order, Room

__all__ = ["Utilization", "UtilizationTable", "predict_utilization", "reference_tables", "virtual_run"]


@dataclass(frozen=True, slots=True)
class Utilization:
    """Predicted. ``cores`` and ``cpu`` are busy shares of the wall time, 0 to 1; ``wall_ns`` nanoseconds.

    ``cpu`` is the share in which the CPU's threads have a step, whatever number of them works on it.
    """

    name: str
    in_flight: int
    tokens: int
    wall_ns: float
    cores: tuple[float, ...]
    cpu: float

    @property
    def npu(self) -> float:
        """Mean over the cores."""
        return sum(self.cores) / len(self.cores)

    @property
    def tokens_per_s(self) -> float:
        return self.tokens * 1e9 / self.wall_ns


@dataclass(frozen=True, slots=True)
class UtilizationTable:
    """One model and cost table: the serial order, and ``in_flight`` micro-batches at a time."""

    model: str
    costs: str
    micro_batches: tuple[int, ...]
    serial: Utilization
    overlapped: Utilization

    @property
    def speedup(self) -> float:
        return self.serial.wall_ns / self.overlapped.wall_ns


def predict_utilization(
    shapes: ModelShape, cost: PrefillCosts, micro_batches: Sequence[int], *, in_flight: int | None = None
) -> UtilizationTable:
    """A prompt of ``sum(micro_batches)`` tokens: as one batch serially, and cut so and overlapped.

    Serially the driver's copies around a matmul hold its caller up, as published. Overlapped they are
    steps of the CPU's: the results of one micro-batch are brought back while the other's are computed.

    Args:
        shapes: a dense model of ``driver.timing.shapes``.
        cost: ``published_costs()`` or ``in_place_costs()``.
        micro_batches: rows of each, in order; ``runner.overlap.micro_batches`` gives the engine's own.
        in_flight: how many are under way at a time, as many as in the engine unless given.

    Raises:
        ValueError: no micro-batches, rows below 1, or a model that is not dense.
    """
    if not micro_batches or min(micro_batches) < 1:
        raise ValueError(f"micro-batches of {list(micro_batches)} rows")
    tokens = sum(micro_batches)
    alone = prompt_steps(shapes, tokens, 0, cost, copies_on_cpu=False)
    steps = []
    before = 0
    for rows in micro_batches:
        steps.append(prompt_steps(shapes, rows, before, cost, copies_on_cpu=True))
        before += rows
    return UtilizationTable(
        shapes.name,
        cost.name,
        tuple(micro_batches),
        _shares("serial", 1, tokens, [alone]),
        _shares("overlapped", in_flight or engine_in_flight(len(micro_batches)), tokens, steps),
    )


def virtual_run(batches: Sequence[Sequence[CostedStep]], in_flight: int) -> float:
    """Nanoseconds from the first step's start to the last one's end, scheduled as the engine does."""
    order = Order([[step.facts for step in batch] for batch in batches], in_flight)
    ending: list[tuple[float, int]] = []
    now = 0.0
    while not order.complete:
        for room in Room:
            if (ready := order.next_for(room)) is not None:
                order.start(ready[0])
                heapq.heappush(ending, (now + batches[ready[0]][ready[1]].ns, ready[0]))
        now, batch = heapq.heappop(ending)
        order.finish(batch)
    return now


def _shares(name: str, in_flight: int, tokens: int, batches: Sequence[Sequence[CostedStep]]) -> Utilization:
    wall = virtual_run(batches, in_flight)
    steps = [step for batch in batches for step in batch]
    count = len(steps[0].cores)
    cores = tuple(sum(step.cores[core] for step in steps) / wall for core in range(count))
    cpu = sum(step.ns for step in steps if step.facts.room is Room.CPU) / wall
    return Utilization(name, in_flight, tokens, wall, cores, cpu)


def reference_tables() -> tuple[UtilizationTable, UtilizationTable]:
    """The published 7B and its prompt of 512 tokens: at the published stack's costs, and at this driver's."""
    seven = REFERENCE_MODELS["qwen2.5-7b"]
    stack = predict_utilization(seven, published_costs(), [256, 256])
    return stack, predict_utilization(seven, in_place_costs(), micro_batches(512))
