"""Byte addresses of a convolution's atoms, and the check that the device may touch them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from orkbench_tui.sim.chip.address_space import AddressSpace
from orkbench_tui.sim.chip.atoms import ATOM
from orkbench_tui.sim.chip.conv_operation import ConvOperation, FeatureMap
from orkbench_tui.sim.chip.write_back import check_writable, result_atoms, result_extent

__all__ = ["check_access", "feature_atoms", "feature_extent", "output_atoms", "output_extent"]


def feature_atoms(features: FeatureMap) -> NDArray[np.int64]:
    """int64 [pixels][surfaces]: where the channels of a surface of a pixel are read."""
    line = np.arange(features.height, dtype=np.int64)
    column = np.arange(features.width, dtype=np.int64)
    surface = np.arange(features.surfaces, dtype=np.int64)
    group = features.lines_per_group
    rows = (line // group) * features.line_stride + (line % group) * features.width
    pixel = (rows[:, None] + column[None, :]).reshape(-1, 1)
    return features.base + ATOM * (pixel + surface[None, :] * features.surface_step)


def output_atoms(operation: ConvOperation) -> NDArray[np.int64]:
    """int64 [groups][pixels][units]: where 16 bytes of results of a pixel are written."""
    shape = operation.result
    return result_atoms(operation.output, shape, range(shape.pixels), range(shape.groups))


def output_extent(operation: ConvOperation) -> tuple[int, int]:
    """First and last-plus-one byte the write rule can reach."""
    return result_extent(operation.output, operation.result)


def feature_extent(features: FeatureMap) -> tuple[int, int]:
    """First and last-plus-one byte the read rule can reach."""
    last_surface = (features.surfaces - 1) * features.surface_step
    group = features.lines_per_group
    lines = range(max(0, features.height - group), features.height)
    last_row = max((h // group) * features.line_stride + (h % group) * features.width for h in lines)
    low, high = min(0, last_surface), max(0, last_surface) + last_row + features.width - 1
    return features.base + ATOM * low, features.base + ATOM * (high + 1)


def check_access(operation: ConvOperation, space: AddressSpace) -> None:
    """Raise DmaFault for the first atom outside the mapped buffers; nothing has been written then."""
    low, high = feature_extent(operation.features)
    if space.whole(low, high - low) is None:
        atoms = feature_atoms(operation.features)
        space.check_atoms(atoms.ravel(), ATOM, write=False, what="features")
    space.read(operation.weights, operation.weight_bytes, "weights")
    check_writable(operation.output, operation.result, space)
