"""The slow executor: the datapath rules written out in numpy, the oracle for the fast one.

Everything is int64, one gather, one product, one scatter. Nothing here knows the fast path.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from orkbench_tui.sim.chip.address_space import AddressSpace, Bytes
from orkbench_tui.sim.chip.conv_addresses import ATOM, check_access, feature_atoms, output_atoms
from orkbench_tui.sim.chip.conv_operation import ConvOperation, OutputConversion

__all__ = ["convert", "execute_reference", "gather_atoms", "scatter_atoms"]

_LANES = np.arange(ATOM, dtype=np.int64)


def gather_atoms(space: AddressSpace, addresses: NDArray[np.int64]) -> Bytes:
    """uint8 [..., 16] of atoms that ``check_access`` has passed."""
    flat = addresses.ravel()
    result = np.empty((len(flat), ATOM), np.uint8)
    for segment, chosen in _by_segment(space, flat):
        result[chosen] = segment.data[(flat[chosen] - segment.iova)[:, None] + _LANES]
    return result.reshape(*addresses.shape, ATOM)


def scatter_atoms(space: AddressSpace, addresses: NDArray[np.int64], atoms: Bytes) -> None:
    """Write uint8 [..., 16] to their addresses; where addresses repeat, the last one stays."""
    flat, data = addresses.ravel(), atoms.reshape(-1, ATOM)
    for segment, chosen in _by_segment(space, flat):
        segment.data[(flat[chosen] - segment.iova)[:, None] + _LANES] = data[chosen]


def _by_segment(space, flat):  # type: ignore[no-untyped-def]
    """(segment, indices into ``flat``) for every buffer the addresses fall in."""
    left = np.arange(len(flat))
    while len(left):
        segment = space.segment_at(int(flat[left[0]]))
        inside = (flat[left] >= segment.iova) & (flat[left] < segment.end)
        yield segment, left[inside]
        left = left[~inside]


def convert(sums: NDArray[np.int64], conversion: OutputConversion) -> NDArray[np.int64]:
    """The output converter on exact sums, before saturation."""
    before, after = (conversion.offset, 0) if conversion.add_first else (0, conversion.offset)
    # Python integers, because (sum + offset) * scale may pass 64 bits.
    product = (sums.astype(object) + before) * conversion.scale
    if conversion.shift:
        half, shift = 1 << (conversion.shift - 1), conversion.shift
        if conversion.half_away:
            product = np.where(product < 0, -((-product + half) >> shift), (product + half) >> shift)
        else:
            product = (product + half - 1 + ((product >> shift) & 1)) >> shift
    return (product + after).astype(np.int64)


def execute_reference(operation: ConvOperation, space: AddressSpace) -> None:
    """Run the operation on the domain's memory.

    Raises:
        DmaFault: an atom is outside the mapped buffers; nothing has been written.
    """
    check_access(operation, space)
    pixels, k, n = operation.features.pixels, operation.channels, operation.kernels
    a = gather_atoms(space, feature_atoms(operation.features)).view(np.int8).reshape(pixels, k)
    tiles = space.read(operation.weights, n * k, "weights").view(np.int8).reshape(n // 32, k // 32, 32, 32)
    b = tiles.transpose(0, 2, 1, 3).reshape(n, k)
    sums = a.astype(np.int64) @ b.T.astype(np.int64)
    kind = np.dtype(f"<i{operation.output_bytes}")
    if operation.output_bytes < 4 or not operation.conversion.identity:
        sums = convert(sums, operation.conversion)
    limits = np.iinfo(kind)
    result = np.clip(sums, limits.min, limits.max).astype(kind)
    grouped = result.reshape(pixels, n // 32, -1, ATOM // operation.output_bytes).transpose(1, 0, 2, 3)
    atoms = np.ascontiguousarray(grouped).view(np.uint8)
    scatter_atoms(space, output_atoms(operation), atoms)
