"""Where numbers stopped being numbers: the same tokens again, one operation at a time, each result looked at.

Runs only after a result was not finite, so the usual way pays for one look at the logits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from orkbench_tui.errors import UnhealthyError
from orkbench_tui.runner.linear import Buffers, Projector
from orkbench_tui.runner.overlap.micro_batches import serial_chunks
from orkbench_tui.runner.plan import (
    Attend,
    Cap,
    Gate,
    Mix,
    Norm,
    Operation,
    Project,
    Remember,
    Rotate,
    Scan,
)
from orkbench_tui.runner.program import Model, compile_program, make_buffers, written

__all__ = ["first_trouble", "not_finite"]

_ROWS = 64


def not_finite(
    model: Model,
    operations: Sequence[Operation],
    projector: Callable[[Buffers], Projector],
    embed: Callable[[Sequence[int]], NDArray[np.float32]],
    tokens: Sequence[int],
    position: int,
) -> UnhealthyError:
    """The error for logits that are not finite after ``tokens``; arguments as of ``first_trouble``."""
    place = first_trouble(model, operations, projector, embed, tokens, position)
    if not place:
        return UnhealthyError(
            "logits that are not numbers came once and did not come again",
            why="computed a second time, on the CPU alone, the same tokens give numbers",
            do="look at the board with: ork board doctor",
        )
    return UnhealthyError(
        "the model gave logits that are not numbers",
        why=f"the first that is none is at {place}",
        do="check its pack with `ork pack verify`; where there is no damage, get the model file again",
    )


def first_trouble(
    model: Model,
    operations: Sequence[Operation],
    projector: Callable[[Buffers], Projector],
    embed: Callable[[Sequence[int]], NDArray[np.float32]],
    tokens: Sequence[int],
    position: int,
) -> str:
    """The first token, layer and operation whose result is not finite; "" where all are.

    ``operations`` are those of the layers and the head. The cache is written as by the usual run.
    """
    names = _Names()
    buffers = make_buffers(model, min(_ROWS, len(tokens)), operations)
    program = compile_program(model, operations, buffers, projector(buffers), one_by_one=True)
    first = 0
    for rows in serial_chunks(len(tokens), buffers.rows):
        hidden = embed(tokens[first : first + rows])
        if (row := _odd_row(hidden)) is not None:
            return f"token {position + first + row}, its embedding"
        buffers["hidden"][:rows] = hidden
        for step in program.steps:
            step.run(rows, position + first)
            for operation in step.operations:
                name = names.of(operation)
                odd = [_odd_row(buffers[target][:rows]) for target in sorted(written(operation))]
                found = [row for row in odd if row is not None]
                if found:
                    return f"token {position + first + min(found)}, {name}"
        first += rows
    return ""


def _odd_row(values: NDArray[np.float32]) -> int | None:
    """The first row with a value that is not finite."""
    odd = ~np.isfinite(values).all(axis=1)
    return int(odd.argmax()) if odd.any() else None


class _Names:
    """What to call operations, in the order they run: one without a layer is in that of the one before."""

    def __init__(self) -> None:
        self._where = ""

    def of(self, operation: Operation) -> str:
        self._where = _where(operation) or self._where
        return f"{self._where}: {_what(operation)}"


def _tensor(operation: Operation) -> str:
    match operation:
        case Norm():
            return operation.weight
        case Project():
            return operation.products[0].weight
        case Mix():
            return operation.router
        case _:
            return ""


def _where(operation: Operation) -> str:
    if isinstance(operation, Rotate | Remember | Attend | Scan):
        return f"layer {operation.layer}"
    tensor = _tensor(operation)
    if tensor.startswith("blk."):
        return f"layer {tensor.split('.')[1]}"
    return "the head" if tensor else ""


def _what(operation: Operation) -> str:
    match operation:
        case Norm():
            return f"norm by {operation.weight}"
        case Project():
            return "product with " + ", ".join(product.weight for product in operation.products)
        case Rotate():
            return f"rotation of {operation.values}"
        case Remember():
            return "storing keys and values"
        case Attend():
            return "attention"
        case Scan():
            return "state space scan"
        case Gate():
            return f"{operation.function} gate"
        case Mix():
            return f"experts of {operation.router}"
        case Cap():
            return f"soft cap of {operation.values}"
