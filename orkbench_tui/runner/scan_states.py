"""What the state space layers of one session remember: one state and one chunk of rows each, whatever the number of tokens."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from orkbench_tui.native.scan_steps import ScanArrays
from orkbench_tui.runner.models.architecture import StateSpace
from orkbench_tui.runner.overlap.micro_batches import ROWS_PER_CHUNK

__all__ = ["SCAN_CHUNK", "ScanStates"]

Floats = NDArray[np.float32]


SCAN_CHUNK = 64
"""Rows of a chunk of the scan. Results depend on it in their last bits, so it is no setting."""


class ScanStates:
    """Inputs of the convolution that are still in its window, and what the scan holds, layer by layer.

    They belong to the position the session stands at and cannot go back to an earlier one. A run that begins
    at position 0 takes them as zeros, so nothing has to be cleared.
    """

    def __init__(self, shape: StateSpace, layers: int) -> None:
        self.windows: tuple[Floats, ...] = tuple(
            np.zeros((shape.taps - 1, shape.convolved), np.float32) for _ in range(layers)
        )
        self.scans: tuple[ScanArrays, ...] = tuple(
            ScanArrays.zeros(
                shape.heads,
                shape.head_dim,
                shape.state_size,
                shape.groups,
                chunk=SCAN_CHUNK,
                rows=ROWS_PER_CHUNK,
            )
            for _ in range(layers)
        )

    @property
    def arrays(self) -> list[np.ndarray]:
        """All of it, layer by layer."""
        return [
            array
            for window, scan in zip(self.windows, self.scans, strict=True)
            for array in (window, *scan.arrays)
        ]
