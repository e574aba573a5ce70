"""What a convolution program must keep, as rules over its launch state."""

from __future__ import annotations

from collections.abc import Iterator

from orkbench_tui.driver.regcmd.operation_matmul import element_wise_stage
from orkbench_tui.driver.regcmd.operation_record import Operation
from orkbench_tui.driver.regcmd.operation_rules_shared import (
    SIZE_E,
    Rule,
    addresses,
    conversion,
    negative_shift,
    stage_sources,
    unwritten,
)
from orkbench_tui.driver.regcmd.operation_tables import INPUT_FORMATS, MATMUL_PAIRS, OUTPUT_BYTES, InputFormat
from orkbench_tui.driver.regcmd.register_groups import LaunchState
from orkbench_tui.driver.regcmd.registers import Precision
from orkbench_tui.driver.soc import RK3588

__all__ = ["CONVOLUTION_RULES"]

_CONV_NEEDS = (
    "cna_conv_con1", "cna_data_size0", "cna_data_size1", "cna_data_size3", "cna_weight_size0", "cna_weight_size1",
    "cna_weight_size2", "cna_cbuf_con0", "cna_feature_data_addr", "cna_dma_con1", "cna_dcomp_addr0",
    "core_misc_cfg", "core_dataout_size_0", "core_dataout_size_1", "dpu_data_format", "dpu_dst_base_addr",
    "dpu_dst_surf_stride", "dpu_data_cube_channel", "dpu_bs_ow_cfg", "dpu_wdma_size_1", "dpu_surface_add",
)  # fmt: skip
_SAFE_INT4_K = 668


def _form(s: LaunchState) -> InputFormat | None:
    return INPUT_FORMATS.get(Precision(s.field("cna_conv_con1", "in_precision")))


def _types(s: LaunchState, o: Operation) -> Iterator[str]:
    form = _form(s)
    code = Precision(s.field("cna_conv_con1", "in_precision"))
    if form is None:
        yield f"the convolution has no input type {code.name.lower()}"
        return
    expected = {
        ("cna_conv_con1", "proc_precision"): code,
        ("core_misc_cfg", "proc_precision"): code,
        ("dpu_data_format", "in_precision"): form.pipeline,
        ("dpu_data_format", "proc_precision"): form.pipeline,
    }
    for (register, field), wanted in expected.items():
        seen = Precision(s.field(register, field))
        if seen != wanted:
            yield f"{register}.{field} is {seen.name.lower()}, the input is {code.name.lower()}"


def _pair(s: LaunchState, o: Operation) -> Iterator[str]:
    if o.dtype is not None and o.dtype not in MATMUL_PAIRS:
        yield f"no known source has run {o.dtype}"


def _pixels(s: LaunchState, o: Operation) -> Iterator[str]:
    width, height = s.field("cna_data_size0", "datain_width"), s.field("cna_data_size0", "datain_height")
    pixels = width * height
    if not pixels:
        yield f"the feature map is {width} x {height}"
        return
    counts = {
        "cna_data_size3.dataout_atomics": s.field("cna_data_size3", "dataout_atomics"),
        "core_dataout_size_0": (s.field("core_dataout_size_0", "width_minus1") + 1)
        * (s.field("core_dataout_size_0", "height_minus1") + 1),
        "the DPU's cube": (s.field("dpu_data_cube_width", "width_minus1") + 1)
        * (s.field("dpu_data_cube_height", "height_minus1") + 1),
    }
    for name, seen in counts.items():
        if seen != pixels and not o.op.startswith("convolution"):
            yield f"{name} says {seen} rows, the features are {width} x {height} = {pixels}"


def _k(s: LaunchState, o: Operation) -> Iterator[str]:
    form, k = _form(s), s.field("cna_data_size1", "channel")
    if form and (not k or k % form.k_granule):
        yield f"K = {k} is not a positive multiple of {form.k_granule}"
    real = s.field("cna_data_size1", "channel_real_minus1") + 1
    if real != k:
        yield f"{real} real channels, K is {k}"
    if s.field("cna_fc_data_size1", "dma_channel") != k:
        yield f"cna_fc_data_size1.dma_channel is {s.field('cna_fc_data_size1', 'dma_channel')}, K is {k}"


def _n(s: LaunchState, o: Operation) -> Iterator[str]:
    form, n = _form(s), s.field("cna_weight_size2", "kernels")
    if form and (not n or n % form.kernel_group):
        yield f"N = {n} is not a positive multiple of {form.kernel_group}"
    if n > RK3588.max_n_per_program:
        yield f"N = {n} is above {RK3588.max_n_per_program}"
    for register in ("core_dataout_size_1", "dpu_data_cube_channel", "dpu_wdma_size_0"):
        seen = s.field(register, "channel_minus1") + 1
        if seen != n:
            yield f"{register} says {seen} channels, N is {n}"


def _weights(s: LaunchState, o: Operation) -> Iterator[str]:
    form = _form(s)
    if form is None or o.op.startswith("convolution"):
        return
    row = s.field("cna_data_size1", "channel") * form.bits // 8
    n = s.field("cna_weight_size2", "kernels")
    if s.field("cna_weight_size1", "bytes_per_kernel") != row:
        yield f"{s.field('cna_weight_size1', 'bytes_per_kernel')} bytes per kernel, a row of K has {row}"
    if s.get("cna_weight_size0") != row * n:
        yield f"{s.get('cna_weight_size0')} weight bytes, N rows have {row * n}"
    if row > RK3588.cbuf_bank_bytes:
        yield f"one kernel of {row} bytes is larger than a bank of {RK3588.cbuf_bank_bytes}"


def _bank_sum(s: LaunchState, o: Operation) -> Iterator[str]:
    if o.banks and (
        o.banks.data + o.banks.weight != RK3588.cbuf_banks or not o.banks.data or not o.banks.weight
    ):
        yield (
            f"{o.banks.data} data banks and {o.banks.weight} weight banks: each must be 1 or more, "
            f"together {RK3588.cbuf_banks}"
        )


def _bank_need(s: LaunchState, o: Operation) -> Iterator[str]:
    if o.banks and o.banks.needed > o.banks.data:
        yield f"the features fill {o.banks.needed} banks, {o.banks.data} are given"


def _bank_slack(s: LaunchState, o: Operation) -> Iterator[str]:
    if o.banks is None or s.field("cna_conv_con1", "in_precision") != Precision.INT8:
        return
    used = s.field("cna_data_size0", "datain_width") * s.field("cna_data_size0", "datain_height") * (o.k or 0)
    bank = RK3588.cbuf_bank_bytes
    if o.banks.needed <= o.banks.data and used > o.banks.data * bank - bank // 2 and used > bank:
        yield f"int8 features leave under half a bank of {o.banks.data} spare; one source saw wrong results there"


def _weight_banks(s: LaunchState, o: Operation) -> Iterator[str]:
    form = _form(s)
    if form is None or o.banks is None:
        return
    row = s.field("cna_data_size1", "channel") * form.bits // 8
    if o.banks.weight_reuse and row * (o.n or 0) > o.banks.weight * RK3588.cbuf_bank_bytes:
        yield f"weight reuse with {row * (o.n or 0)} weight bytes in {o.banks.weight} banks: the weights do not stay"


def _weight_group(s: LaunchState, o: Operation) -> Iterator[str]:
    form = _form(s)
    if form is None or o.banks is None:
        return
    row = s.field("cna_data_size1", "channel") * form.bits // 8
    group = -(-form.kernel_group * row // RK3588.cbuf_bank_bytes)
    if group > o.banks.weight:
        yield f"one group of {form.kernel_group} kernels fills {group} banks, {o.banks.weight} are given"


def _conv_size_e(s: LaunchState, o: Operation) -> Iterator[str]:
    form, size = _form(s), OUTPUT_BYTES.get(Precision(s.field("dpu_data_format", "out_precision")))
    if form is None or size is None:
        return
    units = form.kernel_group * size // RK3588.atom_bytes
    for field in SIZE_E:
        seen = s.field("dpu_bs_ow_cfg", field) + 1
        if seen < units:
            yield f"{field} writes {seen} of {units} units: the rest of each kernel group is dropped"
        elif seen > units:
            yield f"{field} writes {seen} units, a kernel group has {units}: the output stage stalls"


def _cube_pitch(s: LaunchState, o: Operation) -> Iterator[str]:
    if o.a_layout is None or o.m is None:
        return
    rows = o.a_layout.cube_rows
    if rows is not None and rows < o.m:
        yield f"M = {o.m} rows overlap in a cube of {rows}: a cube program takes 1 row or a multiple of 4"
    for name, layout in (("features", o.a_layout), ("output", o.c_layout)):
        if layout is not None and layout.geometry == "strided":
            yield f"the {name} lie in no layout this reader knows"


def _row_pitch(s: LaunchState, o: Operation) -> Iterator[str]:
    form = _form(s)
    if o.a_layout is None or form is None or o.a_layout.geometry != "row_major" or o.m == 1:
        return
    row = (o.k or 0) * form.bits // 8
    if (o.a_layout.row_pitch_bytes or 0) < row:
        yield f"rows of {row} bytes at a pitch of {o.a_layout.row_pitch_bytes} bytes overlap"


def _rdma_trap(s: LaunchState, o: Operation) -> Iterator[str]:
    rdma = bool(s.enable & 0x10)
    element_wise = element_wise_stage(s)
    from_memory = element_wise is not None and element_wise[1]
    if rdma and not from_memory and not s.field("rdma_feature_mode_cfg", "mrdma_disable"):
        yield "RDMA is started without an operand and without MRDMA_DISABLE: the output stage waits forever"
    if from_memory and not rdma:
        yield "an element-wise operand from memory, but RDMA is not started: the output stage waits forever"


def _int4_range(s: LaunchState, o: Operation) -> Iterator[str]:
    if o.dtype == "int4->int16" and (o.k or 0) > _SAFE_INT4_K:
        yield f"K = {o.k} can saturate int16; operands of up to 7 are safe to K = {_SAFE_INT4_K}"


def _conv_blocks(s: LaunchState, o: Operation) -> Iterator[str]:
    if s.enable & 0x0D != 0x0D:
        yield f"enable mask {s.enable:#x} does not start CNA, CORE and DPU together"


CONVOLUTION_RULES: tuple[tuple[str, str, Rule], ...] = (
    ("error", "unwritten", unwritten(_CONV_NEEDS)),
    ("error", "enable", _conv_blocks),
    ("error", "types", _types),
    ("caution", "types", _pair),
    ("error", "rows", _pixels),
    ("error", "K", _k),
    ("error", "N", _n),
    ("error", "weights", _weights),
    ("error", "banks", _bank_sum),
    ("error", "banks", _bank_need),
    ("caution", "banks", _bank_slack),
    ("error", "weight reuse", _weight_banks),
    ("caution", "weight banks", _weight_group),
    ("error", "SIZE_E", _conv_size_e),
    ("error", "layout", _cube_pitch),
    ("error", "layout", _row_pitch),
    ("error", "MRDMA", _rdma_trap),
    ("error", "operands", stage_sources),
    ("error", "negative shift", negative_shift),
    ("caution", "conversion", conversion),
    ("caution", "saturation", _int4_range),
    ("error", "alignment", addresses),
)
