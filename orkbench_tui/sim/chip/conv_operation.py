"""A convolution as the registers describe it: the chip's own picture, made from words alone."""

from __future__ import annotations

from dataclasses import dataclass

from orkbench_tui.driver.regcmd.registers import REGISTERS, Precision
from orkbench_tui.driver.soc import RK3588
from orkbench_tui.sim.chip.register_file import RegisterFile

__all__ = ["ConvOperation", "FeatureMap", "OutputConversion", "WriteRule", "decode_convolution"]

ATOM = RK3588.atom_bytes
OUTPUT_BYTES = {Precision.INT8: 1, Precision.INT16: 2, Precision.INT32: 4}
KERNELS_PER_GROUP = {Precision.INT8: 32}


@dataclass(frozen=True, slots=True)
class FeatureMap:
    """Where input atoms are. Atom (surface s, line h, column w) of 16 bytes is at byte
    ``base + 16*(s*surface_step + (h//lines_per_group)*line_stride + (h%lines_per_group)*width + w)``.
    """

    base: int
    width: int
    height: int
    channels: int
    surface_step: int
    line_stride: int
    lines_per_group: int

    @property
    def pixels(self) -> int:
        return self.width * self.height


@dataclass(frozen=True, slots=True)
class WriteRule:
    """Where results go. For kernel group g, pixel p, unit u: ``q = g*pixels + p``,
    ``gg, pp = divmod(q, width*height)``, ``h, w = divmod(pp, width)``, and the 16 bytes are at
    ``base + gg*group_stride + u*unit_stride + 16*(h*pitch + w)``.
    """

    base: int
    width: int
    height: int
    pitch: int
    unit_stride: int
    group_stride: int


@dataclass(frozen=True, slots=True)
class OutputConversion:
    """``(x*scale >> shift) + offset``, or with ``add_first`` ``((x+offset)*scale >> shift)``."""

    scale: int
    shift: int
    offset: int
    add_first: bool
    half_away: bool

    @property
    def identity(self) -> bool:
        return self.scale == 1 and self.shift == 0 and self.offset == 0


@dataclass(frozen=True, slots=True)
class ConvOperation:
    """A 1x1 convolution, ready to execute: features [pixels][K] x weights [N][K] -> [pixels][N]."""

    features: FeatureMap
    weights: int
    kernels: int
    output: WriteRule
    precision_in: Precision
    precision_out: Precision
    conversion: OutputConversion

    @property
    def channels(self) -> int:
        return self.features.channels

    @property
    def output_bytes(self) -> int:
        return OUTPUT_BYTES[self.precision_out]

    @property
    def macs(self) -> int:
        return self.features.pixels * self.features.channels * self.kernels

    @property
    def weight_bytes(self) -> int:
        return self.kernels * self.channels


def _signed32(value: int) -> int:
    return value - (1 << 32) if value >> 31 else value


def decode_convolution(registers: RegisterFile) -> ConvOperation:
    """The operation in the current groups. Assumes ``conv_rules.check`` has passed."""
    field, get = registers.field, registers.get
    width = field("cna_data_size0", "datain_width")
    grouped = not field("cna_conv_con1", "group_line_off")
    surface = REGISTERS["cna_dma_con2"].fields["surf_stride"].signed(get("cna_dma_con2"))
    write_width = field("dpu_wdma_size_1", "width_minus1") + 1
    scale = field("dpu_out_cvt_scale", "scale")
    return ConvOperation(
        features=FeatureMap(
            base=get("cna_feature_data_addr"),
            width=width,
            height=field("cna_data_size0", "datain_height"),
            channels=field("cna_data_size1", "channel"),
            surface_step=(4 * width if grouped else width) + surface,
            line_stride=field("cna_dma_con1", "line_stride"),
            lines_per_group=4 if grouped else 1,
        ),
        weights=get("cna_dcomp_addr0"),
        kernels=field("cna_weight_size2", "kernels"),
        output=WriteRule(
            base=get("dpu_dst_base_addr"),
            width=write_width,
            height=field("dpu_wdma_size_1", "height_minus1") + 1,
            pitch=write_width + field("dpu_data_cube_notch", "notch_1"),
            unit_stride=field("dpu_dst_surf_stride", "bytes_div16") * 16,
            group_stride=field("dpu_surface_add", "bytes_div16") * 16,
        ),
        precision_in=Precision(field("cna_conv_con1", "in_precision")),
        precision_out=Precision(field("dpu_data_format", "out_precision")),
        conversion=OutputConversion(
            scale=scale - (1 << 16) if scale >> 15 else scale,
            shift=field("dpu_out_cvt_shift", "shift"),
            offset=_signed32(get("dpu_out_cvt_offset")),
            add_first=bool(field("dpu_out_cvt_shift", "cvt_type")),
            half_away=bool(field("dpu_out_cvt_shift", "cvt_round")),
        ),
    )
