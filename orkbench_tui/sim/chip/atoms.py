"""Moving 16-byte atoms between the mapped buffers and arrays."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from orkbench_tui.driver.soc import RK3588
from orkbench_tui.sim.chip.address_space import AddressSpace, Bytes, Segment

__all__ = ["ATOM", "CHECKED_PIXELS", "blocks", "by_segment", "gather_atoms", "scatter_atoms"]

ATOM = RK3588.atom_bytes
CHECKED_PIXELS = 1 << 16
"""Pixels whose addresses are built at once, so that a wild program costs no memory before it faults."""

_LANES = np.arange(ATOM, dtype=np.int64)
_VOID = np.dtype((np.void, ATOM))


def blocks(total: int, size: int) -> Iterator[range]:
    """Consecutive ranges of at most ``size`` that cover ``range(total)``."""
    for start in range(0, total, size):
        yield range(start, min(start + size, total))


def gather_atoms(space: AddressSpace, addresses: NDArray[np.int64]) -> Bytes:
    """uint8 [..., 16] of atoms that a bounds check has passed."""
    flat = addresses.ravel()
    result = np.empty((len(flat), ATOM), np.uint8)
    for segment, chosen in by_segment(space, flat):
        offsets = flat[chosen] - segment.iova
        whole = _as_atoms(segment)
        if whole is None or (offsets % ATOM).any():
            result[chosen] = segment.data[offsets[:, None] + _LANES]
        else:
            result[chosen] = whole[offsets // ATOM].view(np.uint8).reshape(-1, ATOM)
    return result.reshape(*addresses.shape, ATOM)


def scatter_atoms(space: AddressSpace, addresses: NDArray[np.int64], atoms: Bytes) -> None:
    """Write uint8 [..., 16] to their addresses; where addresses repeat, the last one stays."""
    flat, data = addresses.ravel(), np.ascontiguousarray(atoms).reshape(-1, ATOM)
    for segment, chosen in by_segment(space, flat):
        offsets = flat[chosen] - segment.iova
        whole = _as_atoms(segment)
        if whole is None or (offsets % ATOM).any():
            segment.data[offsets[:, None] + _LANES] = data[chosen]
        else:
            whole[offsets // ATOM] = data[chosen].view(_VOID).reshape(-1)


def _as_atoms(segment: Segment) -> NDArray[np.void] | None:
    """The segment as an array of atoms, a view, when it is whole atoms."""
    if len(segment.data) % ATOM or not segment.data.flags.c_contiguous:
        return None
    return segment.data.view(_VOID)


def by_segment(
    space: AddressSpace, flat: NDArray[np.int64]
) -> Iterator[tuple[Segment, NDArray[np.int64] | slice]]:
    """(segment, indices into ``flat``) for every buffer the addresses fall in."""
    left = np.arange(len(flat))
    while len(left):
        segment = space.segment_at(int(flat[left[0]]))
        assert segment is not None, "atoms are checked before they are moved"
        inside = (flat[left] >= segment.iova) & (flat[left] < segment.end)
        if len(left) == len(flat) and inside.all():
            yield segment, slice(None)
            return
        yield segment, left[inside]
        left = left[~inside]
