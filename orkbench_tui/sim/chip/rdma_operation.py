"""What the DPU's read engines fetch, as the registers describe it: main data and operands."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from orkbench_tui.sim.chip.atoms import ATOM
from orkbench_tui.sim.chip.dpu_operation import Dpu
from orkbench_tui.sim.chip.register_file import RegisterFile

__all__ = [
    "ALTERNATING",
    "BIAS",
    "BIAS_AND_FACTOR",
    "FACTOR",
    "PER_CHANNEL",
    "PER_ELEMENT",
    "ChannelOperands",
    "ElementOperands",
    "Operands",
    "SurfaceGrid",
    "decode_main_grid",
    "decode_operands",
]

# DATA_USE of the per-channel engines: what of a channel is fetched.
BIAS, FACTOR, BIAS_AND_FACTOR = 1, 4, 7
# DATA_MODE of the element engine.
PER_CHANNEL, PER_ELEMENT = 0, 1
# COMB_USE of the main engine: it takes turns with the element engine.
ALTERNATING = 5


@dataclass(frozen=True, slots=True)
class SurfaceGrid:
    """Atom (surface s, line h, column w) is at ``base + s*surface_pitch + 16*(h*line_pitch + w)``.

    ``line_pitch`` is in atoms, ``surface_pitch`` in bytes.
    """

    base: int
    width: int
    height: int
    line_pitch: int
    surface_pitch: int

    @property
    def pixels(self) -> int:
        return self.width * self.height

    def extent(self, surfaces: int) -> tuple[int, int]:
        """First and last-plus-one byte of so many surfaces."""
        last = (self.height - 1) * self.line_pitch + self.width - 1
        return self.base, self.base + (surfaces - 1) * self.surface_pitch + ATOM * (last + 1)

    def atoms(self, pixels: range, surfaces: range) -> NDArray[np.int64]:
        """int64 [pixels][surfaces] of addresses."""
        line, column = np.divmod(np.arange(pixels.start, pixels.stop, dtype=np.int64), self.width)
        surface = np.arange(surfaces.start, surfaces.stop, dtype=np.int64)
        return (
            self.base
            + ATOM * (line * self.line_pitch + column)[:, None]
            + (surface * self.surface_pitch)[None, :]
        )


@dataclass(frozen=True, slots=True)
class ChannelOperands:
    """Operands of BS or BN, one per channel, at ``base`` in the layout of ``use``.

    With ``zero_points`` the weight zero points of the block count.
    """

    base: int
    use: int
    zero_points: bool = False


@dataclass(frozen=True, slots=True)
class ElementOperands:
    """Operands of EW. ``odd`` is set where two engines alternate: surface t is surface ``t // 2`` of
    ``grid`` when t is even and of ``odd`` when it is odd. Per channel only ``grid.base`` counts.
    """

    grid: SurfaceGrid
    odd: SurfaceGrid | None = None
    per_channel: bool = False


@dataclass(frozen=True, slots=True)
class Operands:
    """Everything the output stage reads besides its main data."""

    bs: ChannelOperands | None = None
    bn: ChannelOperands | None = None
    element: ElementOperands | None = None


def _size(r: RegisterFile) -> tuple[int, int]:
    return (
        r.field("rdma_data_cube_width", "width_minus1") + 1,
        r.field("rdma_data_cube_height", "height_minus1") + 1,
    )


def decode_main_grid(r: RegisterFile) -> SurfaceGrid:
    """Where the main engine reads."""
    width, height = _size(r)
    pitch = width + r.field("rdma_src_dma_cfg", "line_notch")
    return SurfaceGrid(
        base=r.get("rdma_src_base_addr"),
        width=width,
        height=height,
        line_pitch=pitch,
        surface_pitch=ATOM * pitch * height + r.get("rdma_surf_notch"),
    )


def _element_grid(r: RegisterFile) -> SurfaceGrid:
    width, height = _size(r)
    return SurfaceGrid(
        base=r.get("rdma_ew_base_addr"),
        width=width,
        height=height,
        line_pitch=width + r.field("rdma_data_cube_height", "ew_line_notch"),
        surface_pitch=r.get("rdma_ew_surf_stride") + r.get("rdma_ew_surf_notch"),
    )


def _element(r: RegisterFile, dpu: Dpu) -> ElementOperands | None:
    if dpu.ew is None or not dpu.ew.reads_operand:
        return None
    grid = _element_grid(r)
    if r.field("rdma_erdma_cfg", "data_mode") == PER_CHANNEL:
        return ElementOperands(grid, per_channel=True)
    if r.field("rdma_feature_mode_cfg", "comb_use") == ALTERNATING:
        return ElementOperands(decode_main_grid(r), odd=grid)
    return ElementOperands(grid)


def decode_operands(r: RegisterFile, dpu: Dpu) -> Operands:
    """The operands of a program that enables the read engines. Assumes ``rdma_rules`` has passed."""
    bs = bn = None
    if dpu.bs is not None and (dpu.bs.reads_alu or dpu.bs.reads_factor):
        bs = ChannelOperands(
            r.get("rdma_bs_base_addr"),
            r.field("rdma_brdma_cfg", "data_use"),
            zero_points=bool(r.field("dpu_bs_ow_cfg", "ow_src")),
        )
    if dpu.bn is not None and (dpu.bn.reads_alu or dpu.bn.reads_factor):
        bn = ChannelOperands(r.get("rdma_bn_base_addr"), r.field("rdma_nrdma_cfg", "data_use"))
    return Operands(bs, bn, _element(r, dpu))
