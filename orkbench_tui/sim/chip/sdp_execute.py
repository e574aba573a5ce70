"""Any stand-alone element-wise program, in blocks: read the main data, output stage."""

from __future__ import annotations

from orkbench_tui.sim.chip.address_space import AddressSpace
from orkbench_tui.sim.chip.atoms import blocks
from orkbench_tui.sim.chip.lut import LutMemory
from orkbench_tui.sim.chip.operands import check_grid_access, check_operand_access, read_grid
from orkbench_tui.sim.chip.output_stage import BLOCK_VALUES, finish_block
from orkbench_tui.sim.chip.sdp_operation import SdpOperation
from orkbench_tui.sim.chip.write_back import check_writable

__all__ = ["execute_sdp"]


def execute_sdp(operation: SdpOperation, space: AddressSpace, lut: LutMemory) -> None:
    """Run the operation on the domain's memory. The result may overwrite an operand in place.

    Raises:
        DmaFault: an atom is outside the mapped buffers; nothing has been written.
        UnsupportedOperation: parameters in memory ask for something that is not simulated.
    """
    shape, group = operation.result, operation.group_channels
    check_grid_access(space, operation.main, shape.groups, "main data")
    check_operand_access(space, operation.dpu, operation.operands, operation.channels)
    check_writable(operation.dpu.output, shape, space)
    rows = min(shape.pixels, BLOCK_VALUES // group)
    surfaces = max(1, BLOCK_VALUES // (rows * group))
    for chosen in blocks(shape.groups, surfaces):
        channels = range(chosen.start * group, chosen.stop * group)
        for pixels in blocks(shape.pixels, rows):
            values = read_grid(space, operation.main, pixels, chosen, operation.precision)
            finish_block(
                operation.dpu, operation.operands, shape, space, lut, values, pixels, channels, group
            )
