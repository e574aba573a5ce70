"""A stand-alone program of the output stage: main data from memory instead of from a convolution."""

from __future__ import annotations

from dataclasses import dataclass

from orkbench_tui.driver.regcmd.registers import Precision
from orkbench_tui.sim.chip.dpu_operation import Dpu, decode_dpu
from orkbench_tui.sim.chip.precisions import ELEMENTS
from orkbench_tui.sim.chip.rdma_operation import Operands, SurfaceGrid, decode_main_grid, decode_operands
from orkbench_tui.sim.chip.register_file import RegisterFile
from orkbench_tui.sim.chip.write_back import ResultShape

__all__ = ["SdpOperation", "decode_sdp"]


@dataclass(frozen=True, slots=True)
class SdpOperation:
    """An element-wise program, ready to execute. One 16-byte atom of a pixel is one channel group."""

    main: SurfaceGrid
    precision: Precision
    channels: int
    dpu: Dpu
    operands: Operands

    @property
    def group_channels(self) -> int:
        return ELEMENTS[self.precision].per_atom

    @property
    def result(self) -> ResultShape:
        return ResultShape(self.main.pixels, self.channels // self.group_channels, 1)

    @property
    def traffic_bytes(self) -> int:
        """Bytes read and written."""
        streams = 3 if self.operands.element is not None and not self.operands.element.per_channel else 2
        return streams * self.main.pixels * self.channels * ELEMENTS[self.precision].bytes


def decode_sdp(registers: RegisterFile) -> SdpOperation:
    """The operation in the current groups. Assumes ``sdp_rules.check_sdp`` has passed."""
    dpu = decode_dpu(registers)
    return SdpOperation(
        main=decode_main_grid(registers),
        precision=Precision(registers.field("dpu_data_format", "in_precision")),
        channels=registers.field("dpu_data_cube_channel", "channel_minus1") + 1,
        dpu=dpu,
        operands=decode_operands(registers, dpu),
    )
