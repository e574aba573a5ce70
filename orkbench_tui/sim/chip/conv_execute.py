"""Any convolution, in blocks of kernels: gather, sum, output stage."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from orkbench_tui.driver.regcmd.registers import Precision
from orkbench_tui.sim.chip.accumulate import float_sums, integer_sums
from orkbench_tui.sim.chip.address_space import AddressSpace
from orkbench_tui.sim.chip.atoms import blocks, gather_atoms
from orkbench_tui.sim.chip.conv_addresses import check_access, feature_atoms
from orkbench_tui.sim.chip.conv_native import int8_sums
from orkbench_tui.sim.chip.conv_operation import ConvOperation
from orkbench_tui.sim.chip.elements import Numbers, decode_elements
from orkbench_tui.sim.chip.lut import LutMemory
from orkbench_tui.sim.chip.operands import check_operand_access
from orkbench_tui.sim.chip.output_stage import BLOCK_VALUES, finish_block
from orkbench_tui.sim.chip.precisions import ELEMENTS, MATMUL_INPUTS

__all__ = ["execute_convolution", "read_features", "read_weights"]


def read_features(operation: ConvOperation, space: AddressSpace) -> Numbers:
    """The feature matrix [pixels][K]."""
    raw = gather_atoms(space, feature_atoms(operation.features))
    return decode_elements(raw.reshape(operation.features.pixels, -1), operation.precision)


def read_weights(operation: ConvOperation, space: AddressSpace) -> Numbers:
    """The weight matrix [N][K], out of its tiles [N/KG][K/KC][KG][KC]."""
    group, granule = operation.kernel_group, MATMUL_INPUTS[operation.precision].k_granule
    raw = space.read(operation.weights, operation.weight_bytes, "weights")
    tiles = decode_elements(np.ascontiguousarray(raw), operation.precision)
    blocks = tiles.reshape(operation.kernels // group, operation.channels // granule, group, granule)
    return blocks.transpose(0, 2, 1, 3).reshape(operation.kernels, operation.channels)


def _sums(part: ConvOperation, space: AddressSpace, features: Numbers | None) -> Numbers:
    if features is None:
        return int8_sums(part, space)
    weights = read_weights(part, space)
    kind = ELEMENTS[part.precision]
    return float_sums(features, weights) if kind.floating else integer_sums(features, weights, kind.bits)


def execute_convolution(operation: ConvOperation, space: AddressSpace, lut: LutMemory) -> None:
    """Run the operation on the domain's memory.

    Raises:
        DmaFault: an atom is outside the mapped buffers; nothing has been written.
        UnsupportedOperation: parameters in memory ask for something that is not simulated.
    """
    check_access(operation, space)
    check_operand_access(space, operation.dpu, operation.operands, operation.kernels)
    shape, group = operation.result, operation.kernel_group
    features = None if operation.precision is Precision.INT8 else read_features(operation, space)
    pixels = range(shape.pixels)
    step = max(1, BLOCK_VALUES // (shape.pixels * group)) * group
    for channels in blocks(operation.kernels, step):
        part = replace(
            operation,
            weights=operation.weights + channels.start * operation.row_bytes,
            kernels=len(channels),
        )
        values = _sums(part, space, features)
        finish_block(operation.dpu, operation.operands, shape, space, lut, values, pixels, channels, group)
