"""The output stage as the registers describe it: BS, BN, EW, table, converter, write rule.

Convolutions and stand-alone programs share it. Register operands are kept as raw bits, since what they
mean depends on the pipeline: two's complement in an integer one, fp32 (ALU) and fp16 (MUL) bits in a
floating one.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from orkbench_tui.driver.regcmd.registers import Precision
from orkbench_tui.sim.chip.lut import LutSettings, LutTable
from orkbench_tui.sim.chip.precisions import ELEMENTS
from orkbench_tui.sim.chip.register_file import RegisterFile

__all__ = [
    "ALU_CODES",
    "STAGE_ALU_SIGN",
    "UNARY",
    "Alu",
    "Dpu",
    "ElementConversion",
    "ElementWise",
    "OutputConversion",
    "Stage",
    "WriteRule",
    "decode_dpu",
    "signed",
]


class Alu(Enum):
    """Operations of the element-wise ALU; ``MUL`` is its multiplier."""

    MAX = "max"
    MIN = "min"
    ADD = "add"
    DIV = "div"
    MINUS = "minus"
    ABS = "abs"
    NEG = "neg"
    FLOOR = "floor"
    CEIL = "ceil"
    MUL = "mul"


ALU_CODES = (Alu.MAX, Alu.MIN, Alu.ADD, Alu.DIV, Alu.MINUS, Alu.ABS, Alu.NEG, Alu.FLOOR, Alu.CEIL)
"""ALU_ALGO, by its code."""
UNARY = frozenset({Alu.ABS, Alu.NEG, Alu.FLOOR, Alu.CEIL})
STAGE_ALU_SIGN = {2: 1, 4: -1}
"""ALU_ALGO of BS and BN: add and minus."""


def signed(value: int, bits: int) -> int:
    """The low ``bits`` of a register value as two's complement."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


@dataclass(frozen=True, slots=True)
class Stage:
    """BS or BN. ``alu_sign`` 0 and ``mul`` False skip a part; an operand None comes from memory, one per
    channel. BS adds first, BN multiplies first.
    """

    multiply_first: bool
    alu_sign: int
    alu: int | None
    mul: bool
    factor: int | None
    shift: int
    shift_negative: int
    prelu: bool
    relu: bool
    ceiling: int | None

    @property
    def reads_alu(self) -> bool:
        return self.alu_sign != 0 and self.alu is None

    @property
    def reads_factor(self) -> bool:
        return self.mul and self.factor is None


@dataclass(frozen=True, slots=True)
class ElementConversion:
    """What is done to integer operands of EW before they are used."""

    scale: int
    shift: int
    offset: int
    add_first: bool
    half_away: bool

    @property
    def identity(self) -> bool:
        return self.scale == 1 and self.shift == 0 and self.offset == 0


@dataclass(frozen=True, slots=True)
class ElementWise:
    """EW without its table. ``operation`` None: no arithmetic."""

    operation: Alu | None
    operand_bytes: int
    conversion: ElementConversion | None
    prelu: bool
    relu: bool
    ceiling: int | None

    @property
    def reads_operand(self) -> bool:
        return self.operation is not None and self.operation not in UNARY


@dataclass(frozen=True, slots=True)
class OutputConversion:
    """``(x*scale >> shift) + offset``, or with ``add_first`` ``((x+offset)*scale >> shift)``.

    In a floating pipeline the shift is ``minus_exponent``; ``narrow`` is fp32 to a 16-bit float.
    """

    scale: int
    shift: int
    offset: int
    add_first: bool
    half_away: bool
    minus_exponent: int = 0
    narrow: bool = False

    @property
    def identity(self) -> bool:
        return self.scale == 1 and self.shift == 0 and self.offset == 0 and self.minus_exponent == 0


@dataclass(frozen=True, slots=True)
class WriteRule:
    """Where results go. For channel group g, pixel p of ``pixels``, unit u: ``q = g*pixels + p``,
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
class Dpu:
    """The whole output stage. A stage None is bypassed. ``process`` is the pipeline's precision."""

    process: Precision
    out: Precision
    bs: Stage | None
    bn: Stage | None
    ew: ElementWise | None
    table: LutSettings | None
    conversion: OutputConversion
    output: WriteRule

    @property
    def floating(self) -> bool:
        return ELEMENTS[self.process].floating

    @property
    def converts_only(self) -> bool:
        """Nothing but the output converter works on the values."""
        return self.bs is None and self.bn is None and self.ew is None and self.table is None


def _stage(r: RegisterFile, name: str) -> Stage | None:
    config, mul = f"dpu_{name}_cfg", f"dpu_{name}_mul_cfg"
    if r.field(config, "bypass"):
        return None
    adds, multiplies = not r.field(config, "alu_bypass"), not r.field(config, "mul_bypass")
    relu = not r.field(config, "relu_bypass")
    return Stage(
        multiply_first=name == "bn",
        alu_sign=STAGE_ALU_SIGN[r.field(config, "alu_algo")] if adds else 0,
        alu=None if r.field(config, "alu_src") else r.get(f"dpu_{name}_alu_cfg"),
        mul=multiplies,
        factor=None if r.field(mul, "mul_src") else r.field(mul, "operand"),
        shift=r.field(mul, "shift"),
        shift_negative=r.field("dpu_data_format", f"{name}_mul_shift_neg"),
        prelu=bool(r.field(config, "mul_prelu")),
        relu=relu,
        ceiling=r.get(f"dpu_{name}_relux_cmp") if relu and r.field(config, "relux_en") else None,
    )


def _element_wise(r: RegisterFile) -> ElementWise | None:
    config = "dpu_ew_cfg"
    if r.field(config, "bypass"):
        return None
    operation: Alu | None = None
    if not r.field(config, "op_bypass"):
        operation = Alu.MUL if r.field(config, "op_type") else ALU_CODES[r.field(config, "alu_algo")]
        # A table program leaves the operation on with a register operand of zero, and none is done.
        if operation not in UNARY and not r.field(config, "op_src"):
            operation = None
    relu = not r.field(config, "relu_bypass")
    scale = r.field("dpu_ew_cvt_scale", "scale")
    return ElementWise(
        operation=operation,
        operand_bytes=(1 << r.field(config, "edata_size")) // 2,
        conversion=None
        if r.field(config, "op_cvt_bypass")
        else ElementConversion(
            scale=signed(scale, 16),
            shift=r.field("dpu_ew_cvt_scale", "shift"),
            offset=signed(r.get("dpu_ew_cvt_offset"), 32),
            add_first=bool(r.field(config, "cvt_type")),
            half_away=bool(r.field(config, "cvt_round")),
        ),
        prelu=bool(r.field(config, "mul_prelu")),
        relu=relu,
        ceiling=r.get("dpu_ew_relux_cmp") if relu and r.field(config, "relux_en") else None,
    )


def _table(r: RegisterFile) -> LutSettings | None:
    if r.field("dpu_ew_cfg", "bypass") or r.field("dpu_ew_cfg", "lut_bypass"):
        return None

    def one(name: str) -> LutTable:
        scale, shift = f"dpu_lut_{name}_slope_scale", f"dpu_lut_{name}_slope_shift"
        return LutTable(
            start=signed(r.get(f"dpu_lut_{name}_start"), 32),
            end=signed(r.get(f"dpu_lut_{name}_end"), 32),
            select=r.field("dpu_lut_info", f"{name}_index_select"),
            underflow_scale=signed(r.field(scale, "underflow"), 16),
            underflow_shift=r.field(shift, "underflow"),
            overflow_scale=signed(r.field(scale, "overflow"), 16),
            overflow_shift=r.field(shift, "overflow"),
        )

    return LutSettings(
        le=one("le"),
        lo=one("lo"),
        hybrid_priority=r.field("dpu_lut_cfg", "hybrid_priority"),
        underflow_priority=r.field("dpu_lut_cfg", "uflow_priority"),
        overflow_priority=r.field("dpu_lut_cfg", "oflow_priority"),
    )


def decode_dpu(r: RegisterFile) -> Dpu:
    """The output stage in the current groups. Assumes ``dpu_rules`` has passed."""
    width = r.field("dpu_wdma_size_1", "width_minus1") + 1
    # Row-major programs set both notches, panels only the second one.
    notch = r.field("dpu_data_cube_notch", "notch_1") or r.field("dpu_data_cube_notch", "notch_0")
    return Dpu(
        process=Precision(r.field("dpu_data_format", "proc_precision")),
        out=Precision(r.field("dpu_data_format", "out_precision")),
        bs=_stage(r, "bs"),
        bn=_stage(r, "bn"),
        ew=_element_wise(r),
        table=_table(r),
        conversion=OutputConversion(
            scale=signed(r.field("dpu_out_cvt_scale", "scale"), 16),
            shift=r.field("dpu_out_cvt_shift", "shift"),
            offset=signed(r.get("dpu_out_cvt_offset"), 32),
            add_first=bool(r.field("dpu_out_cvt_shift", "cvt_type")),
            half_away=bool(r.field("dpu_out_cvt_shift", "cvt_round")),
            minus_exponent=r.field("dpu_out_cvt_shift", "minus_exp"),
            narrow=bool(r.field("dpu_out_cvt_scale", "fp32tofp16_en")),
        ),
        output=WriteRule(
            base=r.get("dpu_dst_base_addr"),
            width=width,
            height=r.field("dpu_wdma_size_1", "height_minus1") + 1,
            pitch=width + notch,
            unit_stride=r.field("dpu_dst_surf_stride", "bytes_div16") * 16,
            group_stride=r.field("dpu_surface_add", "bytes_div16") * 16,
        ),
    )
