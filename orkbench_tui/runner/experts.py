"""A feed-forward of experts on the CPU, from 4-bit, int8 or float32 weights, for the rows of one program.

Every layer of a program uses the same arrays: a layer is done before the next begins.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from orkbench_tui.native.expert_steps import Routing, combine, gather, nibble_products, products, route
from orkbench_tui.native.steps import Codes, GateFunction, Steps
from orkbench_tui.runner.linear import Buffers, Int8Store, ModelTensors, Part
from orkbench_tui.runner.models.architecture import Experts, expert_name
from orkbench_tui.runner.plan import Mix

__all__ = ["FloatExperts", "Int8Experts"]

Floats = NDArray[np.float32]


class _Room:
    """Arrays for ``rows`` rows, each in as many slots as it has experts."""

    def __init__(self, experts: Experts, rows: int, embedding: int) -> None:
        slots = rows * experts.used
        self.routing = Routing.of(rows, experts.count, experts.used)
        self.gate = np.zeros((slots, experts.feed_forward), np.float32)
        self.up = np.zeros((slots, experts.feed_forward), np.float32)
        self.result = np.zeros((slots, embedding), np.float32)

    def by_row(self, slots: Floats) -> Floats:
        """A row's share of slots as one row."""
        return slots.reshape(self.routing.rows, -1)


class Int8Experts:
    """Products by expert in int8: a weight is read, and decoded where it has 4 bits, once for all rows that chose it."""

    def __init__(self, store: Int8Store, tensors: ModelTensors, buffers: Buffers) -> None:
        architecture = tensors.architecture
        if architecture.moe is None:
            raise ValueError("the model has no experts")
        self._store, self._tensors, self._buffers = store, tensors, buffers
        self._room = _Room(architecture.moe, buffers.rows, architecture.embedding)
        self._codes: dict[tuple[str, int, int], Codes] = {}

    @property
    def routing(self) -> Routing:
        """Where the rows of the layer that ran last went."""
        return self._room.routing

    def _codes_for(self, tensor: str, rows: int, what: str) -> Codes:
        weight = self._store[expert_name(tensor, 0)]
        key = what, weight.k, weight.rotation
        if key not in self._codes:
            values, scales = np.zeros((rows, weight.k), np.int8), np.ones(rows, np.float32)
            self._codes[key] = Codes(values, scales, weight.rotation)
        return self._codes[key]

    def _products(self, steps: Steps, codes: Codes, tensor: str, output: Floats, *, join: bool) -> None:
        count = self._room.routing.experts
        weights = [self._store[expert_name(tensor, index)] for index in range(count)]
        if any(weight.rotation != codes.rotation for weight in weights):
            raise ValueError(f"the weights of {tensor} are not rotated alike")
        rows = [weight.rows for weight in weights if weight.rows is not None]
        if not rows:
            pairs = [(weight.tiles, weight.scales) for weight in weights]
            products(steps, codes, pairs, output, self._room.routing, join=join)
        elif len(rows) == len(weights):
            nibble_products(steps, codes, rows, output, self._room.routing, join=join)
        else:
            raise ValueError(f"some of the weights of {tensor} have 4 bits and some have 8")

    def add(self, mix: Mix, steps: Steps) -> None:
        room, routing = self._room, self._room.routing
        source = self._buffers[mix.source]
        slots = len(room.gate)
        route(steps, source, self._tensors.raw(mix.router), routing)
        codes = self._codes_for(mix.gate, len(source), "rows")
        grouped = self._codes_for(mix.gate, slots, "slots")
        steps.quantize(source, codes)
        gather(steps, codes, grouped, routing)
        self._products(steps, grouped, mix.gate, room.gate, join=False)
        self._products(steps, grouped, mix.up, room.up, join=True)
        gate, up = room.by_row(room.gate), room.by_row(room.up)
        steps.gated(gate, up, gate, function=mix.function)
        narrow = self._codes_for(mix.down, slots, "slots")
        steps.quantize(gate, narrow, groups=routing.used)
        self._products(steps, narrow, mix.down, room.result, join=True)
        combine(steps, room.result, self._buffers[mix.target], routing)


class FloatExperts:
    """The same in float32 through numpy; routing and combining are the native steps."""

    def __init__(self, weights: Mapping[str, Floats], tensors: ModelTensors, buffers: Buffers) -> None:
        architecture = tensors.architecture
        if architecture.moe is None:
            raise ValueError("the model has no experts")
        self._weights, self._tensors, self._buffers = weights, tensors, buffers
        self._room = _Room(architecture.moe, buffers.rows, architecture.embedding)

    @property
    def routing(self) -> Routing:
        """Where the rows of the layer that ran last went."""
        return self._room.routing

    def add(self, mix: Mix, steps: Steps) -> Part:
        """Appends the routing; the returned part fills the slots."""
        source = self._buffers[mix.source]
        route(steps, source, self._tensors.raw(mix.router), self._room.routing)
        return lambda rows, _position: self._fill(mix, source[:rows])

    def after(self, mix: Mix, steps: Steps) -> None:
        combine(steps, self._room.result, self._buffers[mix.target], self._room.routing)

    def _fill(self, mix: Mix, source: Floats) -> None:
        routing, rows = self._room.routing, len(source)
        row_of = np.empty(rows * routing.used, np.int64)
        row_of[routing.slots[:rows].reshape(-1)] = np.repeat(np.arange(rows), routing.used)
        for expert in np.flatnonzero(np.diff(routing.offsets)):
            slots = slice(routing.offsets[expert], routing.offsets[expert + 1])
            x = source[row_of[slots]]
            gate, up, down = (
                self._weights[expert_name(t, int(expert))] for t in (mix.gate, mix.up, mix.down)
            )
            self._room.result[slots] = (_gated(x @ gate.T, x @ up.T, mix.function)) @ down.T


def _gated(gate: Floats, up: Floats, function: GateFunction) -> Floats:
    out = np.empty_like(gate)
    steps = Steps()
    steps.gated(gate, up, out, function=function)
    steps.run(len(gate))
    return out
