"""Byte addresses of a convolution's atoms, and the check that the device may touch them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from orkbench_tui.driver.soc import RK3588
from orkbench_tui.sim.chip.address_space import AddressSpace
from orkbench_tui.sim.chip.conv_operation import ConvOperation, FeatureMap

__all__ = ["check_access", "feature_atoms", "output_atoms", "output_extent"]

ATOM = RK3588.atom_bytes


def feature_atoms(features: FeatureMap) -> NDArray[np.int64]:
    """int64 [pixels][K/16]: where the 16 channels of a surface of a pixel are read."""
    line = np.arange(features.height, dtype=np.int64)
    column = np.arange(features.width, dtype=np.int64)
    surface = np.arange(features.channels // ATOM, dtype=np.int64)
    group = features.lines_per_group
    rows = (line // group) * features.line_stride + (line % group) * features.width
    pixel = (rows[:, None] + column[None, :]).reshape(-1, 1)
    return features.base + ATOM * (pixel + surface[None, :] * features.surface_step)


def output_atoms(operation: ConvOperation) -> NDArray[np.int64]:
    """int64 [groups][pixels][units]: where 16 bytes of results of a pixel are written."""
    out = operation.output
    pixels = operation.features.pixels
    groups = operation.kernels // 32
    units = 32 * operation.output_bytes // ATOM
    stream = np.arange(groups * pixels, dtype=np.int64)
    slot_group, slot = np.divmod(stream, out.width * out.height)
    line, column = np.divmod(slot, out.width)
    base = out.base + slot_group * out.group_stride + ATOM * (line * out.pitch + column)
    atoms = base[:, None] + np.arange(units, dtype=np.int64)[None, :] * out.unit_stride
    return atoms.reshape(groups, pixels, units)


def output_extent(operation: ConvOperation) -> tuple[int, int]:
    """First and last-plus-one byte the write rule can reach."""
    out = operation.output
    stream = operation.features.pixels * (operation.kernels // 32)
    slots = out.width * out.height
    used = min(stream, slots)
    lines = -(-used // out.width)
    units = 32 * operation.output_bytes // ATOM
    last = (
        ((stream - 1) // slots) * out.group_stride
        + (units - 1) * out.unit_stride
        + ATOM * ((lines - 1) * out.pitch + min(used, out.width) - 1)
    )
    return out.base, out.base + last + ATOM


def feature_extent(features: FeatureMap) -> tuple[int, int]:
    """First and last-plus-one byte the read rule can reach."""
    last_surface = (features.channels // ATOM - 1) * features.surface_step
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
    low, high = output_extent(operation)
    if space.whole(low, high - low) is None:
        space.check_atoms(output_atoms(operation).ravel(), ATOM, write=True, what="output")
