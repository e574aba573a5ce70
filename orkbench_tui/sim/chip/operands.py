"""Fetching the output stage's operands from memory."""

from __future__ import annotations

import numpy as np

from orkbench_tui.driver.regcmd.registers import Precision
from orkbench_tui.sim.chip.address_space import AddressSpace
from orkbench_tui.sim.chip.atoms import ATOM, CHECKED_PIXELS, blocks, gather_atoms
from orkbench_tui.sim.chip.dpu_operation import Dpu
from orkbench_tui.sim.chip.dpu_stages import ChannelValues
from orkbench_tui.sim.chip.elements import Numbers, decode_elements
from orkbench_tui.sim.chip.faults import UnsupportedOperation
from orkbench_tui.sim.chip.precisions import ELEMENTS
from orkbench_tui.sim.chip.rdma_operation import (
    BIAS,
    BIAS_AND_FACTOR,
    ChannelOperands,
    ElementOperands,
    Operands,
    SurfaceGrid,
)
from orkbench_tui.sim.chip.rdma_rules import OPERAND_TYPES

__all__ = ["channel_values", "check_grid_access", "check_operand_access", "element_values", "read_grid"]

_BLOCK = np.dtype([("bias", "<i4", 4), ("minus_zero_point", "<i2", 4), ("factor", "<u2", 4)])
"""Parameters of four output channels."""


def _channel_bytes(operands: ChannelOperands, channels: int) -> int:
    if operands.use == BIAS_AND_FACTOR:
        return -(-channels // 4) * _BLOCK.itemsize
    return channels * (4 if operands.use == BIAS else 2)


def check_grid_access(space: AddressSpace, grid: SurfaceGrid, surfaces: int, what: str) -> None:
    """Raise DmaFault for the first atom of so many surfaces outside the mapped buffers."""
    low, high = grid.extent(surfaces)
    if not surfaces or space.whole(low, high - low) is not None:
        return
    for surface in range(surfaces):
        for pixels in blocks(grid.pixels, CHECKED_PIXELS):
            atoms = grid.atoms(pixels, range(surface, surface + 1))
            space.check_atoms(atoms.ravel(), ATOM, write=False, what=what)


def _operand_type(dpu: Dpu) -> Precision:
    assert dpu.ew is not None
    return OPERAND_TYPES[dpu.process, dpu.ew.operand_bytes]


def check_operand_access(space: AddressSpace, dpu: Dpu, operands: Operands, channels: int) -> None:
    """Check every operand before anything is written.

    Raises:
        DmaFault: an operand is outside the mapped buffers.
        UnsupportedOperation: a weight zero point that is not zero.
    """
    for stage, what in ((operands.bs, "BS operands"), (operands.bn, "BN operands")):
        if stage is not None:
            raw = space.read(stage.base, _channel_bytes(stage, channels), what)
            if stage.zero_points and np.ascontiguousarray(raw).view(_BLOCK)["minus_zero_point"].any():
                raise UnsupportedOperation("weight zero points")
    element = operands.element
    if element is None:
        return
    kind = ELEMENTS[_operand_type(dpu)]
    if element.per_channel:
        space.read(element.grid.base, channels * kind.bytes, "element operands")
        return
    surfaces = channels // kind.per_atom
    if element.odd is None:
        check_grid_access(space, element.grid, surfaces, "element operands")
    else:
        check_grid_access(space, element.grid, -(-surfaces // 2), "element operands")
        check_grid_access(space, element.odd, surfaces // 2, "element operands")


def channel_values(
    space: AddressSpace, operands: ChannelOperands | None, channels: range, *, floating: bool
) -> ChannelValues:
    """The operands of a range of channels, which starts at a multiple of four."""
    if operands is None:
        return ChannelValues()
    count = len(channels)
    if operands.use == BIAS_AND_FACTOR:
        size = _BLOCK.itemsize
        raw = space.read(operands.base + channels.start // 4 * size, -(-count // 4) * size, "BS operands")
        block = np.ascontiguousarray(raw).view(_BLOCK)
        return ChannelValues(
            block["bias"].reshape(-1)[:count].astype(np.int64),
            block["factor"].reshape(-1)[:count].astype(np.int64),
        )
    if operands.use == BIAS:
        raw = space.read(operands.base + 4 * channels.start, 4 * count, "BS operands")
        return ChannelValues(alu=np.ascontiguousarray(raw).view("<i4").astype(np.int64))
    raw = np.ascontiguousarray(space.read(operands.base + 2 * channels.start, 2 * count, "BN operands"))
    factor: Numbers = raw.view("<f2").astype(np.float32) if floating else raw.view("<i2").astype(np.int64)
    return ChannelValues(factor=factor)


def read_grid(
    space: AddressSpace, grid: SurfaceGrid, pixels: range, surfaces: range, precision: Precision
) -> Numbers:
    """[pixels][channels of the surfaces] in the precision's smallest type."""
    raw = gather_atoms(space, grid.atoms(pixels, surfaces))
    return decode_elements(raw.reshape(len(pixels), -1), precision)


def _grid_values(
    space: AddressSpace, element: ElementOperands, pixels: range, surfaces: range, precision: Precision
) -> Numbers:
    if element.odd is None:
        return read_grid(space, element.grid, pixels, surfaces, precision)
    turns = [
        read_grid(space, element.odd if t % 2 else element.grid, pixels, range(t // 2, t // 2 + 1), precision)
        for t in surfaces
    ]
    return np.concatenate(turns, axis=1)


def element_values(
    space: AddressSpace, dpu: Dpu, element: ElementOperands | None, pixels: range, channels: range
) -> Numbers | None:
    """EW's operands for a range of pixels and of channels, as int64 or float32; broadcasts per channel."""
    if element is None:
        return None
    precision = _operand_type(dpu)
    kind = ELEMENTS[precision]
    if element.per_channel:
        at = element.grid.base + channels.start * kind.bytes
        raw = space.read(at, len(channels) * kind.bytes, "element operands")
        values = decode_elements(np.ascontiguousarray(raw), precision)[None, :]
    else:
        surfaces = range(channels.start // kind.per_atom, channels.stop // kind.per_atom)
        values = _grid_values(space, element, pixels, surfaces, precision)
    if precision is Precision.FP32:
        # The fp32 multiplier takes an fp16 operand, in the low half of its word.
        values = np.ascontiguousarray(values).view(np.uint32).astype(np.uint16).view(np.float16)
    return values.astype(np.float32 if dpu.floating else np.int64)
