"""The three ways to run a group of products: int8 on the CPU, int8 on the NPU, float32 in numpy."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from orkbench_tui.native.steps import Codes, Steps
from orkbench_tui.runner.experts import FloatExperts, Int8Experts
from orkbench_tui.runner.linear import Buffers, Int8MatmulLike, Int8Store, ModelTensors, NpuLike, Part
from orkbench_tui.runner.overlap.order import Room
from orkbench_tui.runner.plan import Mix, Project

__all__ = ["FloatProjector", "Int8Projector", "NpuProjector"]

Floats = NDArray[np.float32]


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
                weight.scales,
                self._buffers[product.target],
                bias=None if product.bias is None else self._tensors.raw(product.bias),
                accumulate=product.accumulate,
                join=product is project.products[-1],
            )

    @cached_property
    def _experts(self) -> Int8Experts:
        return Int8Experts(self._store, self._tensors, self._buffers)

    def mix(self, mix: Mix, steps: Steps) -> None:
        self._experts.add(mix, steps)

    def after(self, operation: Project | Mix, steps: Steps) -> None:
        """Nothing is left to do."""


class NpuProjector:
    """Groups of products on the NPU, compiled for exactly the buffers' rows, in the memory of one lane."""

    room = Room.NPU

    def __init__(
        self, npu: NpuLike, store: Int8Store, tensors: ModelTensors, buffers: Buffers, lane: int = 0
    ) -> None:
        self._npu = npu
        self._lane = lane
        self._store = store
        self._tensors = tensors
        self._buffers = buffers
        self._scales = np.ones(buffers.rows, np.float32)
        self._matmuls: dict[Project, Int8MatmulLike] = {}

    def _matmul(self, project: Project) -> Int8MatmulLike:
        if project not in self._matmuls:
            residents = [self._store[product.weight].resident for product in project.products]
            loaded = [resident for resident in residents if resident is not None]
            if len(loaded) != len(residents):
                raise ValueError(f"{project.products[0].weight} and its group are not loaded into the NPU")
            self._matmuls[project] = self._npu.matmul_int8(loaded, self._buffers.rows, lane=self._lane)
        return self._matmuls[project]

    def codes(self, project: Project) -> Codes:
        return Codes(self._matmul(project).a, self._scales, self._store.rotation_for(project))

    def add(self, project: Project, steps: Steps) -> Part:
        matmul = self._matmul(project)
        return lambda _rows, _position: matmul.run()

    @cached_property
    def _experts(self) -> Int8Experts:
        return Int8Experts(self._store, self._tensors, self._buffers)

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
                self._store[product.weight].scales,
                self._buffers[product.target],
                bias=None if product.bias is None else self._tensors.raw(product.bias),
                accumulate=product.accumulate,
                join=product is operation.products[-1],
            )


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
        pairs: list[tuple[Floats, Floats]] = []
        for index, product in enumerate(project.products):
            target = self._buffers[product.target]
            direct = not product.accumulate and product.bias is None
            result = target if direct else self._result(index, target.shape[1])
            pairs.append((self._weights[product.weight].T, result))

        def multiply(rows: int, _position: int) -> None:
            for weight, result in pairs:
                np.matmul(source[:rows], weight, out=result[:rows])

        return multiply

    @cached_property
    def _experts(self) -> FloatExperts:
        return FloatExperts(self._weights, self._tensors, self._buffers)

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
