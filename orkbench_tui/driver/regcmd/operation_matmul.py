"""Reading a convolution program: which matmul it is, and what follows it in the output stage."""

from __future__ import annotations

from typing import Any

from orkbench_tui.driver.regcmd.operation_layouts import geometry_of_pair, input_layout, output_layout
from orkbench_tui.driver.regcmd.operation_record import Banks, Conversion, Layout, Operation
from orkbench_tui.driver.regcmd.operation_tables import ALU_NAMES, INPUT_FORMATS, MATMUL_PAIRS, OUTPUT_BYTES
from orkbench_tui.driver.regcmd.register_groups import LaunchState
from orkbench_tui.driver.regcmd.registers import Precision
from orkbench_tui.driver.soc import RK3588

__all__ = [
    "conversion_of",
    "element_wise_stage",
    "lut_in_use",
    "read_convolution",
    "stage_names",
    "stage_operands",
]

_INTEGER = frozenset({Precision.INT4, Precision.INT8, Precision.INT16, Precision.INT32})
# Fields that make a convolution something else than a matmul, and the value a matmul has.
_ONE_BY_ONE: tuple[tuple[str, str, int], ...] = (
    ("cna_conv_con1", "conv_mode", 0),
    ("cna_conv_con1", "deconv", 0),
    ("cna_conv_con1", "argb_in", 0),
    ("cna_conv_con3", "conv_x_stride", 1),
    ("cna_conv_con3", "conv_y_stride", 1),
    ("cna_conv_con3", "atrous_x", 0),
    ("cna_conv_con3", "atrous_y", 0),
    ("cna_weight_size2", "width", 1),
    ("cna_weight_size2", "height", 1),
    ("cna_pad_con0", "left", 0),
    ("cna_pad_con0", "top", 0),
)


def conversion_of(state: LaunchState) -> Conversion:
    """The output converter's settings. The scale is a signed 16-bit number."""
    scale = state.field("dpu_out_cvt_scale", "scale")
    return Conversion(
        scale=scale - (1 << 16) if scale >> 15 else scale,
        shift=state.field("dpu_out_cvt_shift", "shift"),
        offset=state.signed("dpu_out_cvt_offset"),
        order="offset first" if state.field("dpu_out_cvt_shift", "cvt_type") else "scale first",
        rounding="half away from zero" if state.field("dpu_out_cvt_shift", "cvt_round") else "half to even",
        minus_exponent=state.field("dpu_out_cvt_shift", "minus_exp"),
        fp32_to_fp16=bool(state.field("dpu_out_cvt_scale", "fp32tofp16_en")),
    )


def stage_names(state: LaunchState, stage: str) -> tuple[str, ...]:
    """Active parts of the BS or BN stage, in order: alu, mul, relu."""
    register = f"dpu_{stage}_cfg"
    if state.field(register, "bypass"):
        return ()
    parts = {"alu": "alu_bypass", "mul": "mul_bypass", "relu": "relu_bypass"}
    return tuple(part for part, bypass in parts.items() if not state.field(register, bypass))


def stage_operands(state: LaunchState, stage: str) -> dict[str, Any]:
    """Operands of the BS or BN stage; one that comes from memory is named by its address."""
    parts = stage_names(state, stage)
    found: dict[str, Any] = {}
    base = "rdma_bs_base_addr" if stage == "bs" else "rdma_bn_base_addr"
    if "alu" in parts:
        algo = state.field(f"dpu_{stage}_cfg", "alu_algo")
        found["alu"] = ALU_NAMES.get(algo, f"algorithm {algo}")
        from_memory = state.field(f"dpu_{stage}_cfg", "alu_src")
        found["alu_operand"] = (
            f"{state.get(base):#x}" if from_memory else state.signed(f"dpu_{stage}_alu_cfg")
        )
    if "mul" in parts:
        from_memory = state.field(f"dpu_{stage}_mul_cfg", "mul_src")
        found["mul_operand"] = (
            f"{state.get(base):#x}" if from_memory else state.field(f"dpu_{stage}_mul_cfg", "operand")
        )
        found["mul_shift"] = state.field(f"dpu_{stage}_mul_cfg", "shift")
        found["mul_shift_negative"] = state.field("dpu_data_format", f"{stage}_mul_shift_neg")
    if "relu" in parts:
        found["relu"] = "capped" if state.field(f"dpu_{stage}_cfg", "relux_en") else "plain"
    return found


def element_wise_stage(state: LaunchState) -> tuple[str, bool] | None:
    """``(operation, operand is from memory)`` of the EW stage, None when it does nothing."""
    if state.field("dpu_ew_cfg", "bypass") or state.field("dpu_ew_cfg", "op_bypass"):
        return None
    from_memory = bool(state.field("dpu_ew_cfg", "op_src"))
    if lut_in_use(state) and not from_memory:
        return None
    if state.field("dpu_ew_cfg", "op_type"):
        return "mul", from_memory
    algo = state.field("dpu_ew_cfg", "alu_algo")
    return ALU_NAMES.get(algo, f"algorithm {algo}"), from_memory


def lut_in_use(state: LaunchState) -> bool:
    return not state.field("dpu_ew_cfg", "bypass") and not state.field("dpu_ew_cfg", "lut_bypass")


def read_convolution(state: LaunchState) -> Operation:
    """The matmul (or other convolution) in the launch state; ``unknown`` without shape or type."""
    code = Precision(state.field("cna_conv_con1", "in_precision"))
    out = Precision(state.field("dpu_data_format", "out_precision"))
    width = state.field("cna_data_size0", "datain_width")
    height = state.field("cna_data_size0", "datain_height")
    pixels = width * height
    k = state.field("cna_data_size1", "channel")
    n = state.field("cna_weight_size2", "kernels")
    form = INPUT_FORMATS.get(code)
    dtype = f"{code.name.lower()}->{out.name.lower()}"
    a, w, c = (state.get(name) for name in ("cna_feature_data_addr", "cna_dcomp_addr0", "dpu_dst_base_addr"))
    if form is None or out not in OUTPUT_BYTES or not pixels or not k or not n:
        return Operation("unknown", dtype=dtype, m=pixels or None, k=k or None, n=n or None, a=a, w=w, c=c)
    units = form.kernel_group * OUTPUT_BYTES[out] // RK3588.atom_bytes
    a_layout = input_layout(state, form.bits)
    c_layout = output_layout(state, units, pixels)
    conversion = conversion_of(state)
    operand = element_wise_stage(state)
    return Operation(
        op=_name(state, code, out, conversion),
        dtype=dtype,
        m=height // 4 if a_layout.geometry == "int4_batch" else pixels,
        k=k,
        n=n,
        a=a,
        w=w,
        b=state.get("rdma_ew_base_addr") if operand and operand[1] else None,
        c=c,
        geometry=geometry_of_pair(a_layout, c_layout, pixels),
        a_layout=a_layout,
        c_layout=c_layout,
        banks=Banks(
            data=state.field("cna_cbuf_con0", "data_bank"),
            weight=state.field("cna_cbuf_con0", "weight_bank"),
            needed=-(-pixels * k * form.bits // (8 * RK3588.cbuf_bank_bytes)),
            data_reuse=bool(state.field("cna_cbuf_con0", "data_reuse")),
            weight_reuse=bool(state.field("cna_cbuf_con0", "weight_reuse")),
        ),
        conversion=conversion,
        published=_published(state, dtype, a_layout, c_layout),
        details=_details(state),
    )


def _published(state: LaunchState, dtype: str, *layouts: Layout) -> str | None:
    """The type pair, when the output stage is bypassed and both operands lie as some source has run it."""
    plain = _is_matmul(state) and not (
        stage_names(state, "bs") or stage_names(state, "bn") or element_wise_stage(state) or lut_in_use(state)
    )
    known = dtype in MATMUL_PAIRS and all(layout.geometry != "strided" for layout in layouts)
    return f"matmul {dtype}" if plain and known else None


def _is_matmul(state: LaunchState) -> bool:
    return all(state.field(register, field) == value for register, field, value in _ONE_BY_ONE)


def _name(state: LaunchState, code: Precision, out: Precision, conversion: Conversion) -> str:
    parts = ["matmul" if _is_matmul(state) else "convolution"]
    bs = stage_names(state, "bs")
    parts += [{"alu": "bias", "mul": "scale", "relu": "relu"}[part] for part in bs]
    if not lut_in_use(state):
        parts += [{"alu": "bias", "mul": "scale", "relu": "relu"}[part] for part in stage_names(state, "bn")]
    operand = element_wise_stage(state)
    if operand:
        parts.append(f"operand({operand[0]})")
    if lut_in_use(state):
        parts.append("lut")
    elif code in _INTEGER and (out is Precision.INT8 or not conversion.identity):
        parts.append("requant")
    return "+".join(parts)


def _details(state: LaunchState) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for stage in ("bs", "bn"):
        operands = stage_operands(state, stage)
        if operands:
            found[stage] = operands
    if not _is_matmul(state):
        found["kernel"] = [
            state.field("cna_weight_size2", "height"),
            state.field("cna_weight_size2", "width"),
        ]
        found["input"] = [
            state.field("cna_data_size0", "datain_height"),
            state.field("cna_data_size0", "datain_width"),
        ]
    return found
