"""What the state space layers of one session remember: one state and one chunk of rows each, whatever the number of tokens."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from orkbench_tui.host_memory import require_memory
from orkbench_tui.native.scan_steps import ScanArrays, ScanShape, chunks_touched
from orkbench_tui.runner.models.architecture import Architecture, StateSpace
from orkbench_tui.runner.overlap.micro_batches import ROWS_PER_CHUNK

__all__ = ["SCAN_CHUNK", "ScanStates", "scan_bytes", "scan_shape", "scan_states"]

Floats = NDArray[np.float32]


SCAN_CHUNK = 64
"""Rows of a chunk of the scan. Results depend on it in their last bits, so it is no setting."""


def scan_shape(space: StateSpace) -> ScanShape:
    """What the kernels know of a mixer."""
    return ScanShape(space.heads, space.head_dim, space.state_size, space.groups, SCAN_CHUNK)


def scan_states(architecture: Architecture) -> ScanStates | None:
    """For one session of a model; None where it has no scans.

    Raises:
        NoMemoryError: there is not the memory for them.
    """
    if architecture.scan is None:
        return None
    layers = sorted(architecture.scanning)
    size = scan_bytes(architecture.scan, len(layers))
    require_memory(f"the states of {len(layers)} layers", size, "close other programs or sessions")
    return ScanStates(architecture.scan, layers)


def scan_bytes(space: StateSpace, layers: int) -> int:
    """What ``ScanStates`` take."""
    slots = chunks_touched(ROWS_PER_CHUNK, SCAN_CHUNK)
    values = (
        (space.taps - 1) * space.convolved
        + space.inner * (space.state_size + SCAN_CHUNK)
        + space.heads * (SCAN_CHUNK + 1)
        + slots * space.groups * space.state_size * SCAN_CHUNK
    )
    return layers * values * np.dtype(np.float32).itemsize


class ScanStates:
    """Inputs of the convolution that are still in its window, and what the scan holds, layer by layer.

    They belong to the position the session stands at and cannot go back to an earlier one. A run that begins
    at position 0 takes them as zeros, so nothing has to be cleared.
    """

    def __init__(self, shape: StateSpace, layers: Sequence[int]) -> None:
        """For the ``layers`` of these numbers."""
        self.windows: dict[int, Floats] = {
            layer: np.zeros((shape.taps - 1, shape.convolved), np.float32) for layer in layers
        }
        self.scans: dict[int, ScanArrays] = {
            layer: ScanArrays.zeros(scan_shape(shape), ROWS_PER_CHUNK) for layer in layers
        }

    @property
    def arrays(self) -> list[np.ndarray]:
        """All of it, layer by layer."""
        return [
            array for layer, window in self.windows.items() for array in (window, *self.scans[layer].arrays)
        ]
