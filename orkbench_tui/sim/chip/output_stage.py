"""The output stage on a block of results: BS, BN, EW, table, converter, write DMA, in this order."""

from __future__ import annotations

import numpy as np

from orkbench_tui.sim.chip.address_space import AddressSpace
from orkbench_tui.sim.chip.dpu_operation import Dpu
from orkbench_tui.sim.chip.dpu_stages import apply_stage
from orkbench_tui.sim.chip.element_wise import apply_element_wise
from orkbench_tui.sim.chip.elements import Numbers
from orkbench_tui.sim.chip.lut import LutMemory, apply_lut
from orkbench_tui.sim.chip.operands import channel_values, element_values
from orkbench_tui.sim.chip.output_conversion import converted_bytes
from orkbench_tui.sim.chip.rdma_operation import Operands
from orkbench_tui.sim.chip.write_back import ResultShape, write_result

__all__ = ["BLOCK_VALUES", "finish_block"]

BLOCK_VALUES = 1 << 21
"""Values a block should hold at most, to bound scratch memory."""


def finish_block(
    dpu: Dpu,
    operands: Operands,
    shape: ResultShape,
    space: AddressSpace,
    lut: LutMemory,
    values: Numbers,
    pixels: range,
    channels: range,
    group_channels: int,
) -> None:
    """Take ``values`` [pixels][channels] through the stage and write them.

    ``channels`` are whole groups of ``group_channels``. All addresses have been checked.
    """
    x = values.astype(np.float32 if dpu.floating else np.int64)
    if dpu.bs is not None:
        x = apply_stage(dpu.bs, x, channel_values(space, operands.bs, channels, floating=dpu.floating))
    if dpu.bn is not None:
        x = apply_stage(dpu.bn, x, channel_values(space, operands.bn, channels, floating=dpu.floating))
    if dpu.ew is not None:
        x = apply_element_wise(dpu.ew, x, element_values(space, dpu, operands.element, pixels, channels))
    if dpu.table is not None:
        x = apply_lut(dpu.table, lut, x)
    groups = range(channels.start // group_channels, channels.stop // group_channels)
    write_result(dpu.output, shape, space, pixels, groups, converted_bytes(dpu, x))
