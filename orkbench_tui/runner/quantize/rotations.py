"""Rotations a quantized matmul may turn both operands by: orthogonal, so that products keep.

A rotation that is to be tried is one function more in ``ROTATIONS``; `ork pack qerr` shows it beside the others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from orkbench_tui.native.rotation import rotated_in_numpy
from orkbench_tui.runner.orkpack.schemes import rotation_of

__all__ = ["ROTATIONS", "Rotation"]

Floats = NDArray[np.float64]

_SEED = 0x0517


@dataclass(frozen=True, slots=True)
class Rotation:
    """``turn`` maps rows [R, K] to rows [R, K]; rows of activations and of weights are turned alike."""

    name: str
    title: str
    turn: Callable[[Floats], Floats]

    def matrix(self, k: int) -> Floats:
        """What it multiplies rows of ``k`` values by, [k, k]."""
        return self.turn(np.eye(k))


def _hadamard(rows: Floats) -> Floats:
    return rotated_in_numpy(rows, rotation_of(rows.shape[1]))


def _signs(k: int) -> Floats:
    """The same ±1 for every row of that width, so that both operands get them."""
    return np.random.default_rng([_SEED, k]).choice(np.array([-1.0, 1.0]), k)


def _signed(rows: Floats) -> Floats:
    return _hadamard(rows * _signs(rows.shape[1]))


def _spread(rows: Floats) -> Floats:
    """Blocks that do not see each other are mixed by a fixed permutation before a second turn."""
    order = np.random.default_rng([_SEED + 1, rows.shape[1]]).permutation(rows.shape[1])
    return _hadamard(_signed(rows)[:, order])


ROTATIONS: Mapping[str, Rotation] = MappingProxyType(
    {
        row.name: row
        for row in (
            Rotation("hadamard", "blocks of a power of two", _hadamard),
            Rotation("signed", "the same with random signs before", _signed),
            Rotation("spread", "signed, then over all blocks", _spread),
        )
    }
)
