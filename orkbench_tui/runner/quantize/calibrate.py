"""Runs a text through the float32 model layer by layer and gathers what each weight's inputs are like.

All windows go through one layer before the next begins: only one layer's weights and sums are in memory,
besides the hidden state of every token.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from orkbench_tui.errors import RefusedError, UsageError
from orkbench_tui.native.steps import Steps
from orkbench_tui.runner.kv_cache import KvCache
from orkbench_tui.runner.linear import Buffers, FloatWeights, Part
from orkbench_tui.runner.linear_projectors import FloatProjector
from orkbench_tui.runner.models.architecture import EMBEDDING_NAME, HEAD_NAME
from orkbench_tui.runner.overlap.micro_batches import ROWS_PER_CHUNK
from orkbench_tui.runner.plan import Norm, Operation, Project, head_operations, layer_operations
from orkbench_tui.runner.processors import fast_processors
from orkbench_tui.runner.program import Model, compile_program, make_buffers
from orkbench_tui.runner.quantize.calibration import CalibrationWriter
from orkbench_tui.runner.rotary import layer_rotations
from orkbench_tui.runner.scan_states import scan_states

__all__ = ["gather"]

Floats = NDArray[np.float32]
Progress = Callable[[str, int, int], None]


class _Moments:
    """Sums over rows of one input."""

    def __init__(self, weights: tuple[str, ...], width: int, hessian: bool) -> None:
        self.weights = weights
        self.rows = 0
        self._squares = np.zeros(width)
        self._hessian = np.zeros((width, width), np.float32) if hessian else None

    def add(self, rows: Floats) -> None:
        self.rows += len(rows)
        self._squares += np.einsum("rk,rk->k", rows, rows, dtype=np.float64)
        if self._hessian is not None:
            self._hessian += rows.T @ rows

    def write(self, writer: CalibrationWriter) -> None:
        squares = (self._squares / max(1, self.rows)).astype(np.float32)
        hessian = None if self._hessian is None else self._hessian / np.float32(max(1, self.rows))
        writer.add(self.weights, self.rows, squares, hessian)


class _Observing(FloatProjector):
    """A float32 projector that also adds up what its groups of weights are multiplied by."""

    def __init__(
        self,
        weights: dict[str, Floats],
        model: FloatWeights,
        buffers: Buffers,
        moments: dict[Project, _Moments],
    ) -> None:
        super().__init__(weights, model, buffers)
        self._moments, self._sources = moments, buffers

    def add(self, project: Project, steps: Steps) -> Part:
        multiply = super().add(project, steps)
        source, own = self._sources[project.source], self._moments[project]

        def observed(rows: int, position: int) -> None:
            own.add(source[:rows])
            multiply(rows, position)

        return observed


def gather(
    model: FloatWeights,
    tokens: Sequence[int],
    writer: CalibrationWriter,
    *,
    window: int = 512,
    hessians: bool = True,
    threads: int | None = None,
    progress: Progress | None = None,
) -> int:
    """Add every input of ``model`` over ``tokens`` to ``writer``; the tokens used, whole windows of the text.

    Raises:
        UsageError: the text is shorter than a window.
        RefusedError: a model of experts, to which too few rows of a text go to tell anything.
    """
    architecture = model.architecture
    if architecture.moe is not None:
        raise RefusedError(
            "models of experts are not calibrated", why="few rows go to each", do="pack without a calibration"
        )
    count = len(tokens) // window
    if not count:
        raise UsageError(
            f"the text has {len(tokens)} tokens",
            why=f"calibration needs a window of {window}",
            do="use a longer text or a shorter --window",
        )
    used = list(tokens[: count * window])
    hidden = model.raw_rows(EMBEDDING_NAME, used).astype(np.float32) * np.float32(
        architecture.embedding_scale
    )
    cache = KvCache(architecture.attending, architecture.kv_heads, architecture.head_dim, window, "f32")
    scans = scan_states(architecture)
    engine = Model(model, cache, layer_rotations(architecture, window), threads or fast_processors(), scans)
    total = architecture.layers * count
    for layer in range(architecture.layers):
        operations = layer_operations(architecture, layer)
        moments = _layer(engine, model, operations, hessians)
        run = _runner(engine, model, operations, moments)
        for index in range(count):
            run(hidden[index * window : (index + 1) * window])
            if progress is not None:
                progress(f"calibrating layer {layer}", layer * count + index + 1, total)
        for own in moments.values():
            own.write(writer)
    _head(engine, model, hidden, hessians).write(writer)
    return len(used)


def _layer(
    engine: Model, model: FloatWeights, operations: Sequence[Operation], hessians: bool
) -> dict[Project, _Moments]:
    widths = {name: array.shape[1] for name, array in make_buffers(engine, 1, operations).named.items()}
    return {
        o: _Moments(tuple(product.weight for product in o.products), widths[o.source], hessians)
        for o in operations
        if isinstance(o, Project)
    }


def _runner(
    engine: Model, model: FloatWeights, operations: Sequence[Operation], moments: dict[Project, _Moments]
) -> Callable[[Floats], None]:
    """Takes one window's hidden state through the layer, in place."""
    weights = {product.weight: model.raw(product.weight) for o in moments for product in o.products}
    buffers = make_buffers(engine, ROWS_PER_CHUNK, operations)
    program = compile_program(engine, operations, buffers, _Observing(weights, model, buffers, moments))

    def run(hidden: Floats) -> None:
        for first in range(0, len(hidden), ROWS_PER_CHUNK):
            part = hidden[first : first + ROWS_PER_CHUNK]
            buffers["hidden"][: len(part)] = part
            program.run(len(part), first)
            part[...] = buffers["hidden"][: len(part)]

    return run


def _head(engine: Model, model: FloatWeights, hidden: Floats, hessians: bool) -> _Moments:
    """Inputs of the head: the norm alone, because its product is not needed."""
    norms = [o for o in head_operations(model.architecture) if isinstance(o, Norm)]
    own = _Moments((HEAD_NAME,), model.architecture.embedding, hessians)
    buffers = make_buffers(engine, ROWS_PER_CHUNK, norms)
    program = compile_program(engine, norms, buffers, FloatProjector({}, model, buffers))
    for first in range(0, len(hidden), ROWS_PER_CHUNK):
        part = hidden[first : first + ROWS_PER_CHUNK]
        buffers["hidden"][: len(part)] = part
        program.run(len(part), 0)
        own.add(buffers["normed"][: len(part)])
    return own
