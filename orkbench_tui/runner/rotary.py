"""Tables of the rotary embedding."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from orkbench_tui.runner.models.architecture import Architecture, Rope

__all__ = ["layer_rotations", "rotary_tables"]

Tables = tuple[NDArray[np.float32], NDArray[np.float32]]


def layer_rotations(architecture: Architecture, positions: int) -> tuple[Tables, ...]:
    """The tables of every layer; layers that turn alike share theirs."""
    ropes = [architecture.rope_of(layer) for layer in range(architecture.layers)]
    tables = {rope: rotary_tables(rope, positions) for rope in set(ropes)}
    return tuple(tables[rope] for rope in ropes)


def rotary_tables(rope: Rope, positions: int) -> Tables:
    """Cosines and sines, float32 [positions, dims / 2] each.

    Angles are computed in double precision: at position 8000 a float angle is already off by 5e-4.
    """
    frequencies = rope.base ** (-np.arange(0, rope.dims, 2, dtype=np.float64) / rope.dims)
    if rope.factors is not None:
        frequencies = frequencies / np.asarray(rope.factors, dtype=np.float64)
    frequencies = frequencies / rope.stretch
    angles = np.arange(positions, dtype=np.float64)[:, None] * frequencies
    return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
