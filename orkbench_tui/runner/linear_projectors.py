"""The ways to run a group of products: int8 on the CPU, on the NPU or on either, float32 in numpy."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from orkbench_tui.native.expert_steps import Routing
from orkbench_tui.native.steps import Codes, Steps
from orkbench_tui.runner.dispatch.unit import Place
from orkbench_tui.runner.experts import FloatExperts, Int8Experts
from orkbench_tui.runner.linear import Buffers, Int8MatmulLike, Int8Store, ModelTensors, NpuLike, Part
from orkbench_tui.runner.overlap.order import Room
from orkbench_tui.runner.plan import Mix, Product, Project

__all__ = ["FloatProjector", "Int8Projector", "Matmuls", "NpuProjector", "RoutedProjector"]

Floats = NDArray[np.float32]
Matmuls = dict[tuple[Project, int, int], Int8MatmulLike]
"""Compiled matmuls by group, rows and lane."""


def _scaled(scales: Floats, product: Product) -> Floats:
    return scales if product.scale == 1.0 else scales * np.float32(product.scale)


class Int8Projector:
    """Everything on the CPU: a group of products is steps among the others."""

    room = Room.CPU

    def __init__(self, store: Int8Store, tensors: ModelTensors, buffers: Buffers) -> None:
        self._store = store
        self._tensors = tensors
        self._buffers = buffers
        self._codes: dict[tuple[int, int], Codes] = {}

    def codes(self, project: Project) -> Codes:
        """One array for each width and rotation: codes are read before the next ones are made."""
        k, rotation = self._store[project.products[0].weight].k, self._store.rotation_for(project)
        if (k, rotation) not in self._codes:
            rows = self._buffers.rows
            values, scales = np.zeros((rows, k), np.int8), np.ones(rows, np.float32)
            self._codes[k, rotation] = Codes(values, scales, rotation)
        return self._codes[k, rotation]

    def add(self, project: Project, steps: Steps) -> None:
        codes = self.codes(project)
        for product in project.products:
            weight = self._store[product.weight]
            steps.matmul(
                codes,
                weight.tiles,
                _scaled(weight.scales, product),
                self._buffers[product.target],
                bias=None if product.bias is None else self._tensors.raw(product.bias),
                accumulate=product.accumulate,
                join=product is project.products[-1],
            )

    @cached_property
    def _experts(self) -> Int8Experts:
        return Int8Experts(self._store, self._tensors, self._buffers)

    @property
    def routing(self) -> Routing:
        """Where the rows of the experts' layer that ran last went."""
        return self._experts.routing

    def mix(self, mix: Mix, steps: Steps) -> None:
        self._experts.add(mix, steps)

    def after(self, operation: Project | Mix, steps: Steps) -> None:
        """Nothing is left to do."""


class NpuProjector:
    """Groups of products on the NPU, compiled for exactly the buffers' rows, in the memory of one lane."""

    room = Room.NPU

    def __init__(
        self,
        npu: NpuLike,
        store: Int8Store,
        tensors: ModelTensors,
        buffers: Buffers,
        lane: int,
        matmuls: Matmuls,
    ) -> None:
        """``matmuls`` are shared by all sessions over one model, which take turns."""
        self._npu = npu
        self._lane = lane
        self._store = store
        self._tensors = tensors
        self._buffers = buffers
        self._scales = np.ones(buffers.rows, np.float32)
        self._matmuls = matmuls

    def _matmul(self, project: Project) -> Int8MatmulLike:
        key = project, self._buffers.rows, self._lane
        if key not in self._matmuls:
            residents = [self._store[product.weight].resident for product in project.products]
            loaded = [resident for resident in residents if resident is not None]
            if len(loaded) != len(residents):
                raise ValueError(f"{project.products[0].weight} and its group are not loaded into the NPU")
            self._matmuls[key] = self._npu.matmul_int8(loaded, self._buffers.rows, lane=self._lane)
        return self._matmuls[key]

    def codes(self, project: Project) -> Codes:
        return Codes(self._matmul(project).a, self._scales, self._store.rotation_for(project))

    def add(self, project: Project, steps: Steps) -> Part:
        matmul = self._matmul(project)
        return lambda _rows, _position: matmul.run()

    @cached_property
    def _experts(self) -> Int8Experts:
        return Int8Experts(self._store, self._tensors, self._buffers)

    @property
    def routing(self) -> Routing:
        """Where the rows of the experts' layer that ran last went."""
        return self._experts.routing

    def mix(self, mix: Mix, steps: Steps) -> None:
        """Experts stay on the CPU: few rows go to each, and a submit for every one of them would cost more."""
        self._experts.add(mix, steps)

    def after(self, operation: Project | Mix, steps: Steps) -> None:
        if isinstance(operation, Mix):
            return
        for product, sums in zip(operation.products, self._matmul(operation).outputs, strict=True):
            steps.dequantize(
                sums,
                self._scales,
                _scaled(self._store[product.weight].scales, product),
                self._buffers[product.target],
                bias=None if product.bias is None else self._tensors.raw(product.bias),
                accumulate=product.accumulate,
                join=product is operation.products[-1],
            )


class RoutedProjector:
    """Each group of products where ``place`` says; both places give the same bits."""

    room = Room.NPU

    def __init__(self, cpu: Int8Projector, npu: NpuProjector, place: Callable[[Project], Place]) -> None:
        self._sides: dict[Place, Int8Projector | NpuProjector] = {Place.CPU: cpu, Place.NPU: npu}
        self._decide = place
        self._places: dict[Project, Place] = {}

    def _side(self, project: Project) -> Int8Projector | NpuProjector:
        """Asked once for each group: a program is compiled for one answer."""
        if project not in self._places:
            self._places[project] = self._decide(project)
        return self._sides[self._places[project]]

    def codes(self, project: Project) -> Codes:
        return self._side(project).codes(project)

    def add(self, project: Project, steps: Steps) -> Part | None:
        return self._side(project).add(project, steps)

    def mix(self, mix: Mix, steps: Steps) -> None:
        self._sides[Place.CPU].mix(mix, steps)

    def after(self, operation: Project | Mix, steps: Steps) -> None:
        if isinstance(operation, Project):
            self._side(operation).after(operation, steps)


class FloatProjector:
    """float32 weights and activations through numpy."""

    room = Room.CPU

    def __init__(self, weights: dict[str, Floats], tensors: ModelTensors, buffers: Buffers) -> None:
        self._weights = weights
        self._tensors = tensors
        self._buffers = buffers
        self._results: dict[tuple[int, int], Floats] = {}

    def codes(self, project: Project) -> None:
        return None

    def _result(self, index: int, width: int) -> Floats:
        """Where the group's product of this index waits to be added to its target."""
        if (index, width) not in self._results:
            self._results[index, width] = np.zeros((self._buffers.rows, width), np.float32)
        return self._results[index, width]

    def add(self, project: Project, steps: Steps) -> Part:
        source = self._buffers[project.source]
        pairs: list[tuple[Floats, Floats, float]] = []
        for index, product in enumerate(project.products):
            target = self._buffers[product.target]
            direct = not product.accumulate and product.bias is None
            result = target if direct else self._result(index, target.shape[1])
            pairs.append((self._weights[product.weight].T, result, product.scale))

        def multiply(rows: int, _position: int) -> None:
            # What is not finite is found in the logits, and named there by layer and tensor.
            with np.errstate(over="ignore", invalid="ignore"):
                for weight, result, scale in pairs:
                    np.matmul(source[:rows], weight, out=result[:rows])
                    if scale != 1.0:
                        np.multiply(result[:rows], np.float32(scale), out=result[:rows])

        return multiply

    @cached_property
    def _experts(self) -> FloatExperts:
        return FloatExperts(self._weights, self._tensors, self._buffers)

    @property
    def routing(self) -> Routing:
        """Where the rows of the experts' layer that ran last went."""
        return self._experts.routing

    def mix(self, mix: Mix, steps: Steps) -> Part:
        return self._experts.add(mix, steps)

    def after(self, operation: Project | Mix, steps: Steps) -> None:
        if isinstance(operation, Mix):
            self._experts.after(operation, steps)
            return
        for index, product in enumerate(operation.products):
            if product.accumulate or product.bias is not None:
                target = self._buffers[product.target]
                bias = None if product.bias is None else self._tensors.raw(product.bias)
                result = self._result(index, target.shape[1])
                steps.add(result, target, bias=bias, accumulate=product.accumulate)
