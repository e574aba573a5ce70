"""What the state space layers of one session remember: one state each, whatever the number of tokens."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from orkbench_tui.runner.models.architecture import StateSpace

__all__ = ["ScanStates"]

Floats = NDArray[np.float32]


class ScanStates:
    """Inputs of the convolution that are still in its window, and the states of the scan, layer by layer.

    They belong to the position the session stands at and cannot go back to an earlier one. A run that begins
    at position 0 takes them as zeros, so nothing has to be cleared.
    """

    def __init__(self, shape: StateSpace, layers: int) -> None:
        self.windows: tuple[Floats, ...] = tuple(
            np.zeros((shape.taps - 1, shape.convolved), np.float32) for _ in range(layers)
        )
        self.states: tuple[Floats, ...] = tuple(
            np.zeros((shape.heads, shape.head_dim, shape.state_size), np.float32) for _ in range(layers)
        )

    @property
    def arrays(self) -> list[np.ndarray]:
        """All of it, layer by layer."""
        return [array for pair in zip(self.windows, self.states, strict=True) for array in pair]

    @staticmethod
    def bytes_for(shape: StateSpace, layers: int) -> int:
        values = (shape.taps - 1) * shape.convolved + shape.inner * shape.state_size
        return layers * values * np.dtype(np.float32).itemsize
