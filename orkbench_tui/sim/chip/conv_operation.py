"""A convolution as the registers describe it: the chip's own picture, made from words alone."""

from __future__ import annotations

from dataclasses import dataclass

from orkbench_tui.driver.regcmd.registers import REGISTERS, Precision
from orkbench_tui.driver.soc import RK3588
from orkbench_tui.sim.chip.dpu_operation import Dpu, OutputConversion, WriteRule, decode_dpu
from orkbench_tui.sim.chip.precisions import ELEMENTS, MATMUL_INPUTS
from orkbench_tui.sim.chip.rdma_operation import Operands, decode_operands
from orkbench_tui.sim.chip.register_file import RegisterFile
from orkbench_tui.sim.chip.write_back import ResultShape

__all__ = ["ConvOperation", "FeatureMap", "decode_convolution"]

ATOM = RK3588.atom_bytes


@dataclass(frozen=True, slots=True)
class FeatureMap:
    """Where input atoms are. Atom (surface s, line h, column w) of 16 bytes is at byte
    ``base + 16*(s*surface_step + (h//lines_per_group)*line_stride + (h%lines_per_group)*width + w)``.
    """

    base: int
    width: int
    height: int
    surfaces: int
    surface_step: int
    line_stride: int
    lines_per_group: int

    @property
    def pixels(self) -> int:
        return self.width * self.height


@dataclass(frozen=True, slots=True)
class ConvOperation:
    """A 1x1 convolution, ready to execute: features [pixels][K] x weights [N][K] -> [pixels][N]."""

    features: FeatureMap
    channels: int
    weights: int
    kernels: int
    precision: Precision
    dpu: Dpu
    operands: Operands
    weight_banks: int = RK3588.cbuf_banks - 1
    reuses_weights: bool = False

    @property
    def output(self) -> WriteRule:
        return self.dpu.output

    @property
    def conversion(self) -> OutputConversion:
        return self.dpu.conversion

    @property
    def output_bytes(self) -> int:
        return ELEMENTS[self.dpu.out].bytes

    @property
    def kernel_group(self) -> int:
        return MATMUL_INPUTS[self.precision].kernel_group

    @property
    def result(self) -> ResultShape:
        units = self.kernel_group * self.output_bytes // ATOM
        return ResultShape(self.features.pixels, self.kernels // self.kernel_group, units)

    @property
    def macs(self) -> int:
        return self.features.pixels * self.channels * self.kernels

    @property
    def row_bytes(self) -> int:
        """Bytes of one kernel, and of one pixel's features."""
        return self.channels * ELEMENTS[self.precision].bits // 8

    @property
    def weight_bytes(self) -> int:
        return self.kernels * self.row_bytes

    @property
    def fetched_weight_bytes(self) -> int:
        """What it reads of its weights from memory."""
        return 0 if self.reuses_weights else self.weight_bytes

    @property
    def native(self) -> bool:
        """The C core does all of it: int8 to integers with nothing but the output converter."""
        return (
            self.precision is Precision.INT8
            and not ELEMENTS[self.dpu.out].floating
            and self.dpu.converts_only
        )


def decode_convolution(registers: RegisterFile, *, read_engines: bool = False) -> ConvOperation:
    """The operation in the current groups. Assumes ``conv_rules.check`` has passed."""
    field, get = registers.field, registers.get
    width = field("cna_data_size0", "datain_width")
    channels = field("cna_data_size1", "channel")
    grouped = not field("cna_conv_con1", "group_line_off")
    surface = REGISTERS["cna_dma_con2"].fields["surf_stride"].signed(get("cna_dma_con2"))
    precision = Precision(field("cna_conv_con1", "in_precision"))
    dpu = decode_dpu(registers)
    return ConvOperation(
        features=FeatureMap(
            base=get("cna_feature_data_addr"),
            width=width,
            height=field("cna_data_size0", "datain_height"),
            surfaces=channels // ELEMENTS[precision].per_atom,
            surface_step=(4 * width if grouped else width) + surface,
            line_stride=field("cna_dma_con1", "line_stride"),
            lines_per_group=4 if grouped else 1,
        ),
        channels=channels,
        weights=get("cna_dcomp_addr0"),
        kernels=field("cna_weight_size2", "kernels"),
        precision=precision,
        dpu=dpu,
        operands=decode_operands(registers, dpu) if read_engines else Operands(),
        weight_banks=field("cna_cbuf_con0", "weight_bank"),
        reuses_weights=bool(field("cna_cbuf_con0", "weight_reuse")),
    )
