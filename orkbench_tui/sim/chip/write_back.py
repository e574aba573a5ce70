"""The write DMA: where the atoms of a result are, and the check that the device may write them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from orkbench_tui.sim.chip.address_space import AddressSpace, Bytes
from orkbench_tui.sim.chip.atoms import ATOM, CHECKED_PIXELS, blocks, scatter_atoms
from orkbench_tui.sim.chip.dpu_operation import WriteRule

__all__ = ["ResultShape", "check_writable", "result_atoms", "result_extent", "write_result"]


@dataclass(frozen=True, slots=True)
class ResultShape:
    """A result as the write rule counts it: pixels, channel groups, 16-byte units of a pixel's group."""

    pixels: int
    groups: int
    units: int


def result_atoms(rule: WriteRule, shape: ResultShape, pixels: range, groups: range) -> NDArray[np.int64]:
    """int64 [groups][pixels][units]: where 16 bytes of results of a pixel are written."""
    group = np.arange(groups.start, groups.stop, dtype=np.int64)[:, None] * shape.pixels
    stream = group + np.arange(pixels.start, pixels.stop, dtype=np.int64)[None, :]
    slot_group, slot = np.divmod(stream, rule.width * rule.height)
    line, column = np.divmod(slot, rule.width)
    first = rule.base + slot_group * rule.group_stride + ATOM * (line * rule.pitch + column)
    unit = np.arange(shape.units, dtype=np.int64) * rule.unit_stride
    return np.asarray(first[:, :, None] + unit[None, None, :])


def result_extent(rule: WriteRule, shape: ResultShape) -> tuple[int, int]:
    """First and last-plus-one byte the write rule can reach."""
    stream = shape.pixels * shape.groups
    slots = rule.width * rule.height
    used = min(stream, slots)
    lines = -(-used // rule.width)
    last = (
        ((stream - 1) // slots) * rule.group_stride
        + (shape.units - 1) * rule.unit_stride
        + ATOM * ((lines - 1) * rule.pitch + min(used, rule.width) - 1)
    )
    return rule.base, rule.base + last + ATOM


def check_writable(rule: WriteRule, shape: ResultShape, space: AddressSpace) -> None:
    """Raise DmaFault for the first atom of the result outside the mapped buffers."""
    low, high = result_extent(rule, shape)
    if space.whole(low, high - low) is not None:
        return
    for group in range(shape.groups):
        for pixels in blocks(shape.pixels, CHECKED_PIXELS):
            atoms = result_atoms(rule, shape, pixels, range(group, group + 1))
            space.check_atoms(atoms.ravel(), ATOM, write=True, what="output")


def write_result(
    rule: WriteRule, shape: ResultShape, space: AddressSpace, pixels: range, groups: range, raw: Bytes
) -> None:
    """Write uint8 [pixels][bytes of the groups] of a result that ``check_writable`` has passed."""
    by_group = raw.reshape(len(pixels), len(groups), shape.units, ATOM).transpose(1, 0, 2, 3)
    scatter_atoms(space, result_atoms(rule, shape, pixels, groups), by_group)
