"""Which experts each token of a text takes: the text run through the model one operation at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, cast

import numpy as np
from numpy.typing import NDArray

from orkbench_tui.errors import RefusedError
from orkbench_tui.native.expert_steps import Routing
from orkbench_tui.runner.expert_skew import read_choices
from orkbench_tui.runner.linear import Buffers, Projector
from orkbench_tui.runner.overlap.micro_batches import serial_chunks
from orkbench_tui.runner.plan import Mix, Operation
from orkbench_tui.runner.program import Model, compile_program, make_buffers

__all__ = ["expert_choices"]

_ROWS = 256


class _Routes(Protocol):
    """A projector that tells where the last feed-forward of experts sent its rows."""

    @property
    def routing(self) -> Routing: ...


def expert_choices(
    model: Model,
    operations: Sequence[Operation],
    projector: Callable[[Buffers], Projector],
    embed: Callable[[Sequence[int]], NDArray[np.float32]],
    tokens: Sequence[int],
    position: int,
) -> NDArray[np.int32]:
    """Experts by layer and token, int32 [layers with experts, tokens, used]; ``operations`` are the layers'.

    The cache is written as by the usual run.

    Raises:
        RefusedError: the model has no experts.
    """
    if model.tensors.architecture.moe is None:
        raise RefusedError(
            "the model has no experts", do="choose a mixture of experts, for example a qwen3moe"
        )
    buffers = make_buffers(model, min(_ROWS, len(tokens)), operations)
    compiled = projector(buffers)
    program = compile_program(model, operations, buffers, compiled, one_by_one=True)
    routing = cast("_Routes", compiled).routing
    chunks: list[NDArray[np.int32]] = []
    first = 0
    for rows in serial_chunks(len(tokens), buffers.rows):
        buffers["hidden"][:rows] = embed(tokens[first : first + rows])
        layers: list[NDArray[np.int32]] = []
        for step in program.steps:
            step.run(rows, position + first)
            if any(isinstance(operation, Mix) for operation in step.operations):
                strides = tuple(stride // routing.chosen.itemsize for stride in routing.chosen.strides)
                layers.append(
                    read_choices(routing.chosen, rows, routing.used, cast("tuple[int, int]", strides))
                )
        chunks.append(np.stack(layers))
        first += rows
    return np.concatenate(chunks, axis=1)
