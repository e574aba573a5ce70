"""The fast executor: the same operation through the C core, outside the interpreter lock."""

from __future__ import annotations

import numpy as np

from orkbench_tui.native._kernels import ffi, lib
from orkbench_tui.sim.chip.address_space import AddressSpace
from orkbench_tui.sim.chip.conv_addresses import (
    ATOM,
    check_access,
    feature_atoms,
    feature_extent,
    output_atoms,
    output_extent,
)
from orkbench_tui.sim.chip.conv_operation import ConvOperation
from orkbench_tui.sim.chip.conv_reference import gather_atoms, scatter_atoms

__all__ = ["execute_native"]


def execute_native(operation: ConvOperation, space: AddressSpace, level: int = -1) -> None:
    """Run the operation on the domain's memory; ``level`` picks an instruction set (see npu_conv.h).

    Raises:
        DmaFault: an atom is outside the mapped buffers; nothing has been written.
        MemoryError: no scratch memory.
    """
    check_access(operation, space)
    features, out = operation.features, operation.output
    conv = ffi.new("ork_npu_conv *")
    conv.width, conv.height = features.width, features.height
    conv.channels, conv.kernels = operation.channels, operation.kernels
    conv.surface_step, conv.line_stride = features.surface_step, features.line_stride
    conv.lines_per_group = features.lines_per_group
    conv.write_width, conv.write_height, conv.write_pitch = out.width, out.height, out.pitch
    conv.unit_stride, conv.group_stride = out.unit_stride, out.group_stride
    conv.output_bytes = operation.output_bytes
    conversion = operation.conversion
    conv.scale, conv.shift, conv.offset = conversion.scale, conversion.shift, conversion.offset
    conv.add_first, conv.half_away = conversion.add_first, conversion.half_away

    low, high = feature_extent(features)
    source = space.whole(low, high - low)
    if source is not None:
        a = source
        conv.features = ffi.from_buffer("uint8_t[]", a) + (features.base - low)
    else:  # the map spans several buffers: stage it as [K/16][pixels][16]
        a = np.ascontiguousarray(gather_atoms(space, feature_atoms(features)).transpose(1, 0, 2))
        conv.width, conv.height, conv.lines_per_group = features.pixels, 1, 1
        conv.surface_step, conv.line_stride = features.pixels, 0
        conv.features = ffi.from_buffer("uint8_t[]", a)
    b = space.read(operation.weights, operation.weight_bytes, "weights")
    conv.weights = ffi.cast("int8_t *", ffi.from_buffer("uint8_t[]", b))

    low, high = output_extent(operation)
    target = space.whole(low, high - low)
    staged = None
    if target is not None:
        conv.output = ffi.from_buffer("uint8_t[]", target, require_writable=True)
    else:  # the result spans several buffers: stage it as [groups][pixels][units][16]
        atoms = output_atoms(operation)
        staged = np.empty((*atoms.shape, ATOM), np.uint8)
        units = atoms.shape[2]
        conv.write_width, conv.write_height, conv.write_pitch = features.pixels, 1, 0
        conv.unit_stride, conv.group_stride = features.pixels * ATOM, features.pixels * units * ATOM
        conv.output = ffi.from_buffer("uint8_t[]", staged, require_writable=True)
    if lib.ork_npu_conv_int8(conv, level):
        raise MemoryError("no scratch memory for the simulated convolution")
    if staged is not None:
        by_unit = staged.reshape(staged.shape[0], staged.shape[2], staged.shape[1], ATOM)
        scatter_atoms(space, output_atoms(operation), np.ascontiguousarray(by_unit.transpose(0, 2, 1, 3)))
