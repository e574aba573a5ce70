"""int8 convolutions through the C core, outside the interpreter lock."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from orkbench_tui.native._kernels import ffi, lib
from orkbench_tui.sim.chip.address_space import AddressSpace, Bytes
from orkbench_tui.sim.chip.atoms import ATOM, gather_atoms, scatter_atoms
from orkbench_tui.sim.chip.conv_addresses import (
    check_access,
    feature_atoms,
    feature_extent,
    output_atoms,
    output_extent,
)
from orkbench_tui.sim.chip.conv_operation import ConvOperation

__all__ = ["execute_native", "int8_sums"]

_GROUP_SUM_BYTES = 32 * 4


def execute_native(operation: ConvOperation, space: AddressSpace, level: int = -1) -> None:
    """Run an operation that is ``native``; ``level`` picks an instruction set (see npu_conv.h).

    Raises:
        DmaFault: an atom is outside the mapped buffers; nothing has been written.
        MemoryError: no scratch memory.
    """
    check_access(operation, space)
    conv, held = _inputs(operation, space)
    out, conversion = operation.output, operation.conversion
    conv.write_width, conv.write_height, conv.write_pitch = out.width, out.height, out.pitch
    conv.unit_stride, conv.group_stride = out.unit_stride, out.group_stride
    conv.output_bytes = operation.output_bytes
    conv.scale, conv.shift, conv.offset = conversion.scale, conversion.shift, conversion.offset
    conv.add_first, conv.half_away = conversion.add_first, conversion.half_away

    low, high = output_extent(operation)
    target = space.whole(low, high - low)
    staged = None
    if target is not None:
        conv.output = ffi.from_buffer("uint8_t[]", target, require_writable=True)
    else:  # the result spans several buffers: stage it as [groups][pixels][units][16]
        atoms = output_atoms(operation)
        staged = np.empty((*atoms.shape, ATOM), np.uint8)
        pixels, units = atoms.shape[1:]
        conv.write_width, conv.write_height, conv.write_pitch = pixels, 1, 0
        conv.unit_stride, conv.group_stride = pixels * ATOM, pixels * units * ATOM
        conv.output = ffi.from_buffer("uint8_t[]", staged, require_writable=True)
    _run(conv, level)
    if staged is not None:
        by_unit = staged.reshape(staged.shape[0], staged.shape[2], staged.shape[1], ATOM)
        scatter_atoms(space, output_atoms(operation), by_unit.transpose(0, 2, 1, 3))
    held.clear()


def int8_sums(operation: ConvOperation, space: AddressSpace) -> NDArray[np.int32]:
    """The exact sums [pixels][N] of an int8 convolution whose reads have been checked.

    Raises:
        MemoryError: no scratch memory.
    """
    conv, held = _inputs(operation, space)
    sums = np.empty((operation.features.pixels, operation.kernels), np.int32)
    conv.write_width, conv.write_height, conv.write_pitch = 1, len(sums), sums.shape[1] * 4 // ATOM
    conv.unit_stride, conv.group_stride = ATOM, _GROUP_SUM_BYTES
    conv.output_bytes, conv.scale = 4, 1
    conv.output = ffi.from_buffer("uint8_t[]", sums.reshape(-1).view(np.uint8), require_writable=True)
    _run(conv, -1)
    held.clear()
    return sums


def _inputs(operation: ConvOperation, space: AddressSpace) -> tuple[Any, list[Bytes]]:
    """The C structure with features and weights set, and the arrays it points into."""
    features = operation.features
    conv = ffi.new("ork_npu_conv *")
    conv.width, conv.height = features.width, features.height
    conv.channels, conv.kernels = operation.channels, operation.kernels
    conv.surface_step, conv.line_stride = features.surface_step, features.line_stride
    conv.lines_per_group = features.lines_per_group
    low, high = feature_extent(features)
    source = space.whole(low, high - low)
    if source is not None:
        conv.features = ffi.from_buffer("uint8_t[]", source) + (features.base - low)
    else:  # the map spans several buffers: stage it as [K/16][pixels][16]
        source = np.ascontiguousarray(gather_atoms(space, feature_atoms(features)).transpose(1, 0, 2))
        conv.width, conv.height, conv.lines_per_group = features.pixels, 1, 1
        conv.surface_step, conv.line_stride = features.pixels, 0
        conv.features = ffi.from_buffer("uint8_t[]", source)
    weights = space.read(operation.weights, operation.weight_bytes, "weights")
    conv.weights = ffi.cast("int8_t *", ffi.from_buffer("uint8_t[]", weights))
    return conv, [source, weights]


def _run(conv: Any, level: int) -> None:
    if lib.ork_npu_conv_int8(conv, level):
        raise MemoryError("no scratch memory for the simulated convolution")
