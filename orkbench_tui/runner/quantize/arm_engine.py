"""An engine that computes a number format of ``arms`` in float32."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from orkbench_tui.errors import RefusedError, UsageError
from orkbench_tui.native.steps import Steps
from orkbench_tui.runner.engine import Engine
from orkbench_tui.runner.linear import Buffers, FloatWeights, ModelTensors, Part
from orkbench_tui.runner.linear_projectors import FloatProjector
from orkbench_tui.runner.plan import Mix, Project
from orkbench_tui.runner.quantize.arms import Arm, Moments

if TYPE_CHECKING:
    from orkbench_tui.runner.kv_cache import CacheType

__all__ = ["arm_engine"]

Floats = NDArray[np.float32]
Progress = Callable[[str, int, int], None]


class _RoundingProjector(FloatProjector):
    """A float32 projector whose inputs are rounded first."""

    def __init__(self, weights: dict[str, Floats], tensors: ModelTensors, buffers: Buffers, arm: Arm) -> None:
        super().__init__(weights, tensors, buffers)
        self._arm, self._given, self._all = arm, buffers, (weights, tensors)
        self._inner: dict[str, FloatProjector] = {}

    def _over(self, source: str) -> tuple[FloatProjector, Floats]:
        """A projector that reads the rounded rows in the place of ``source``."""
        rounded = np.zeros_like(self._given[source])
        weights, tensors = self._all
        buffers = Buffers(self._given.rows, {**self._given.named, source: rounded})
        return FloatProjector(weights, tensors, buffers), rounded

    def add(self, project: Project, steps: Steps) -> Part:
        inner, rounded = self._over(project.source)
        self._inner[project.products[0].weight] = inner
        source, inputs, name = self._given[project.source], self._arm.inputs, project.products[0].weight
        multiply = inner.add(project, steps)

        def run(rows: int, position: int) -> None:
            rounded[:rows] = inputs(source[:rows], name)
            multiply(rows, position)

        return run

    def after(self, operation: Project | Mix, steps: Steps) -> None:
        if isinstance(operation, Project):
            self._inner[operation.products[0].weight].after(operation, steps)


def arm_engine(
    model: FloatWeights,
    arm: Arm,
    moments: Moments | None = None,
    *,
    context: int,
    cache_type: CacheType = "f32",
    threads: int | None = None,
    progress: Progress | None = None,
) -> Engine:
    """Every weight as ``arm`` rounds it, in memory as float32; ``moments`` are those of a calibration.

    Raises:
        UsageError: the arm needs a calibration and there is none, or it lacks a weight.
        RefusedError: a model of experts.
    """
    architecture = model.architecture
    if architecture.moe is not None:
        raise RefusedError("models of experts have no emulated arms", do="choose another model")
    if arm.needs and moments is None:
        raise UsageError(
            f"arm fake:{arm.name} needs a calibration",
            do="run: ork pack calibrate, then give --calibration",
        )
    linears = architecture.all_linears()
    weights: dict[str, Floats] = {}
    for done, linear in enumerate(linears):
        if progress is not None:
            progress(f"rounding {linear.name}", done, len(linears))
        weights[linear.name] = arm.weights(model.raw(linear.name), linear.name, moments)
    return Engine(
        model,
        lambda buffers: _RoundingProjector(weights, model, buffers, arm),
        quant=f"fake:{arm.name}",
        context=context,
        cache_type=cache_type,
        threads=threads,
    )
