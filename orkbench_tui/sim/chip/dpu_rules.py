"""Rules of the output stage, shared by convolutions and stand-alone programs.

``unsupported`` names what this simulator recognises and cannot execute; ``inconsistent`` what cannot
be meant. Neither looks at the read engines, see ``rdma_rules``.
"""

from __future__ import annotations

from collections.abc import Iterator

from orkbench_tui.driver.regcmd.registers import Precision
from orkbench_tui.driver.soc import RK3588
from orkbench_tui.sim.chip.dpu_operation import ALU_CODES, STAGE_ALU_SIGN, UNARY, Alu, signed
from orkbench_tui.sim.chip.lut import ENTRIES
from orkbench_tui.sim.chip.precisions import ELEMENTS
from orkbench_tui.sim.chip.register_file import RegisterFile

__all__ = ["differing", "dpu_inconsistent", "dpu_unsupported", "precision_name"]

MAX_SHIFT = 62

# register, field, the only value this simulator executes, what another value asks for
_EXECUTED: tuple[tuple[str, str, int, str], ...] = (
    ("dpu_feature_mode_cfg", "output_mode", 2, "an output that does not go to memory"),
    ("dpu_feature_mode_cfg", "tp_en", 0, "transposed output"),
    ("dpu_feature_mode_cfg", "conv_mode", 0, "depthwise output"),
    ("dpu_feature_mode_cfg", "comb_use", 0, "combined output"),
    ("dpu_feature_mode_cfg", "rgp_type", 0, "regrouped output"),
    ("dpu_feature_mode_cfg", "nonalign", 0, "unaligned output"),
    ("dpu_feature_mode_cfg", "surf_len", 0, "output in partial surfaces"),
    ("dpu_data_format", "mc_surf_out", 0, "multi-surface output"),
    ("dpu_data_format", "ew_truncate_neg", 0, "truncation of element-wise operands"),
    ("dpu_data_cube_height", "minmax_ctl", 0, "minimum and maximum search"),
    ("dpu_bs_ow_cfg", "tp_org_en", 0, "transposed output"),
    ("dpu_bs_ow_cfg", "rgp_cnter", 0, "regrouped output"),
    ("dpu_wdma_size_0", "tp_precision", 0, "transposed output"),
    ("dpu_wdma_size_0", "size_c", 0, "output in partial channels"),
)

_EW_EXECUTED: tuple[tuple[str, str, int, str], ...] = (
    ("dpu_ew_cfg", "equal_en", 0, "element-wise comparison"),
    ("dpu_ew_cfg", "binary_en", 0, "element-wise binary result"),
    ("dpu_ew_cvt_scale", "truncate", 0, "truncation of element-wise operands"),
)

_LUT_EXECUTED: tuple[tuple[str, str, int, str], ...] = (
    ("dpu_lut_cfg", "cal_sel", 0, "table calculation mode"),
    ("dpu_lut_cfg", "lo_le_mux", 2, "table multiplexing other than the vendor's"),
    ("dpu_lut_cfg", "expand_en", 0, "expanded table"),
    ("dpu_lut_cfg", "road_sel", 0, "table road selection"),
)
_LUT_PIPELINES = (Precision.INT8, Precision.INT16, Precision.FP16, Precision.FP32)

_INTEGER_ALU = frozenset({Alu.MAX, Alu.MIN, Alu.ADD, Alu.MINUS, Alu.ABS, Alu.NEG, Alu.MUL})


def precision_name(code: int) -> str:
    return Precision(code).name.lower()


def _process(r: RegisterFile) -> Precision:
    return Precision(r.field("dpu_data_format", "proc_precision"))


def differing(r: RegisterFile, table: tuple[tuple[str, str, int, str], ...]) -> Iterator[str]:
    """What the fields of a table ask for that differ from their executed value."""
    for register, field, value, meaning in table:
        seen = r.field(register, field)
        if seen != value:
            yield f"{meaning} ({register}.{field} = {seen})"


def dpu_unsupported(r: RegisterFile) -> Iterator[str]:
    """What the output stage asks for beyond this simulator, in the order of the datapath."""
    yield from differing(r, _EXECUTED)
    floating = ELEMENTS[_process(r)].floating
    for name in ("bs", "bn"):
        if not r.field(f"dpu_{name}_cfg", "bypass"):
            yield from _stage(r, name, floating)
    if not r.field("dpu_ew_cfg", "bypass"):
        yield from differing(r, _EW_EXECUTED)
        yield from _operation(r, floating)
        if not r.field("dpu_ew_cfg", "lut_bypass"):
            yield from differing(r, _LUT_EXECUTED)
            if _process(r) not in _LUT_PIPELINES:
                yield f"a table in a {precision_name(_process(r))} pipeline"
    yield from _conversion(r, floating)


def _stage(r: RegisterFile, name: str, floating: bool) -> Iterator[str]:
    config, mul = f"dpu_{name}_cfg", f"dpu_{name}_mul_cfg"
    adds, multiplies = not r.field(config, "alu_bypass"), not r.field(config, "mul_bypass")
    if adds and r.field(config, "alu_algo") not in STAGE_ALU_SIGN:
        yield f"{name.upper()} operation {r.field(config, 'alu_algo')}"
    if r.field(mul, "truncate_src"):
        yield f"{name.upper()} shift from memory"
    if multiplies and floating and r.field(mul, "shift"):
        yield f"{name.upper()} shift in a floating-point pipeline"
    if name == "bn" and adds and multiplies and r.field(config, "mul_prelu"):
        yield "BN PReLU with an ALU operand"


def _operation(r: RegisterFile, floating: bool) -> Iterator[str]:
    if r.field("dpu_ew_cfg", "op_bypass"):
        return
    code = r.field("dpu_ew_cfg", "alu_algo")
    if r.field("dpu_ew_cfg", "op_type"):
        operation = Alu.MUL
    elif code < len(ALU_CODES):
        operation = ALU_CODES[code]
    else:
        yield f"element-wise operation {code}"
        return
    if not floating and operation not in _INTEGER_ALU:
        yield f"integer element-wise {operation.value}"
    if operation in UNARY:
        return
    if not r.field("dpu_ew_cfg", "op_src"):
        values = any(r.get(f"dpu_ew_op_value_{i}") for i in range(8))
        if r.field("dpu_ew_cfg", "lut_bypass") or values:
            yield f"element-wise {operation.value} with a register operand"
        return
    if floating and not r.field("dpu_ew_cfg", "op_cvt_bypass"):
        conversion = r.get("dpu_ew_cvt_scale"), r.get("dpu_ew_cvt_offset")
        if conversion != (1, 0):
            yield "conversion of floating-point element-wise operands"


def _conversion(r: RegisterFile, floating: bool) -> Iterator[str]:
    out = Precision(r.field("dpu_data_format", "out_precision"))
    narrow = r.field("dpu_out_cvt_scale", "fp32tofp16_en")
    exponent = r.field("dpu_out_cvt_shift", "minus_exp")
    if not floating:
        if narrow or exponent:
            yield "floating-point output conversion of integers"
        return
    if narrow != (out is not Precision.FP32):
        yield f"{precision_name(out)} output of a floating-point pipeline with fp32tofp16_en = {narrow}"
    if r.field("dpu_out_cvt_shift", "shift"):
        yield "an output shift in a floating-point pipeline"
    plain = r.field("dpu_out_cvt_scale", "scale") == 1 and not r.get("dpu_out_cvt_offset") and not exponent
    if not plain and not r.field("dpu_out_cvt_shift", "cvt_type"):
        yield "floating-point output conversion other than (x + offset) * 2^-minus_exp * scale"


def dpu_inconsistent(r: RegisterFile) -> Iterator[str]:
    """What cannot be meant, after ``dpu_unsupported`` has found nothing."""
    if r.field("dpu_out_cvt_shift", "shift") > MAX_SHIFT:
        yield f"output shift {r.field('dpu_out_cvt_shift', 'shift')} is above {MAX_SHIFT}"
    if r.get("dpu_dst_base_addr") % RK3588.atom_bytes:
        yield f"dpu_dst_base_addr = {r.get('dpu_dst_base_addr'):#x} is not a multiple of {RK3588.atom_bytes}"
    if not r.field("dpu_ew_cfg", "bypass"):
        yield from _dropped_add(r)
        if not r.field("dpu_ew_cfg", "lut_bypass"):
            yield from _table(r, "le")
            yield from _table(r, "lo")


def _dropped_add(r: RegisterFile) -> Iterator[str]:
    config = "dpu_ew_cfg"
    two_operands = not r.field(config, "op_bypass") and r.field(config, "op_src")
    if not two_operands or r.field(config, "op_type") or not r.field(config, "op_cvt_bypass"):
        return
    operation = ALU_CODES[r.field(config, "alu_algo")]
    if _process(r) is Precision.FP16 and operation not in UNARY:
        yield f"fp16 {operation.value} with its operand converter bypassed is silently dropped"


def _table(r: RegisterFile, name: str) -> Iterator[str]:
    start, end = (signed(r.get(f"dpu_lut_{name}_{edge}"), 32) for edge in ("start", "end"))
    select = r.field("dpu_lut_info", f"{name}_index_select")
    if not 0 <= end - start <= (ENTRIES - 1) << min(select, 32):
        yield f"table {name.upper()} from {start} to {end} is not {ENTRIES - 1} steps of 2^{select} at most"
    if select > 31:
        yield f"table {name.upper()} index select {select} is above 31"
