"""The slow executor of int8 convolutions: the datapath rules written out in numpy.

The oracle for the fast one: everything is int64, one gather, one product, one scatter, and no code of
the fast path.
"""

from __future__ import annotations

import numpy as np

from orkbench_tui.sim.chip.address_space import AddressSpace
from orkbench_tui.sim.chip.atoms import ATOM, gather_atoms, scatter_atoms
from orkbench_tui.sim.chip.conv_addresses import check_access, feature_atoms, output_atoms
from orkbench_tui.sim.chip.conv_operation import ConvOperation
from orkbench_tui.sim.chip.output_conversion import convert_integers

__all__ = ["execute_reference"]


def execute_reference(operation: ConvOperation, space: AddressSpace) -> None:
    """Run an operation that is ``native`` on the domain's memory.

    Raises:
        DmaFault: an atom is outside the mapped buffers; nothing has been written.
    """
    check_access(operation, space)
    pixels, k, n = operation.features.pixels, operation.channels, operation.kernels
    a = gather_atoms(space, feature_atoms(operation.features)).view(np.int8).reshape(pixels, k)
    tiles = space.read(operation.weights, n * k, "weights").view(np.int8).reshape(n // 32, k // 32, 32, 32)
    b = tiles.transpose(0, 2, 1, 3).reshape(n, k)
    sums = convert_integers(a.astype(np.int64) @ b.T.astype(np.int64), operation.conversion)
    kind = np.dtype(f"<i{operation.output_bytes}")
    limits = np.iinfo(kind)
    result = np.clip(sums, limits.min, limits.max).astype(kind)
    grouped = result.reshape(pixels, n // 32, -1, ATOM // operation.output_bytes).transpose(1, 0, 2, 3)
    scatter_atoms(space, output_atoms(operation), np.ascontiguousarray(grouped).view(np.uint8))
