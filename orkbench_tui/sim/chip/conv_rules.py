"""The rules a convolution program must keep, as one table.

Hardware does not check most of them, it computes something else. The simulator stops instead and
names the rule, so that a driver fault shows up where it is made. First what this simulator cannot
execute (checked in the order of the datapath), then what is inconsistent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from orkbench_tui.driver.regcmd.registers import Precision
from orkbench_tui.driver.soc import RK3588
from orkbench_tui.sim.chip.conv_operation import KERNELS_PER_GROUP, OUTPUT_BYTES
from orkbench_tui.sim.chip.faults import ProgramError, UnsupportedOperation
from orkbench_tui.sim.chip.register_file import RegisterFile

__all__ = ["check_convolution"]

MAX_SHIFT = 62
CHANNELS_PER_TILE = 32

# register, field, the only value this simulator executes, what another value asks for
_EXECUTED: tuple[tuple[str, str, int, str], ...] = (
    ("cna_conv_con1", "conv_mode", 0, "depthwise convolution"),
    ("cna_conv_con1", "deconv", 0, "deconvolution"),
    ("cna_conv_con1", "argb_in", 0, "image input"),
    ("cna_conv_con1", "nonalign_dma", 0, "unaligned feature DMA"),
    ("cna_conv_con3", "nn_mode", 0, "neural-network mode of the sequencer"),
    ("cna_conv_con3", "atrous_x", 0, "dilated convolution"),
    ("cna_conv_con3", "atrous_y", 0, "dilated convolution"),
    ("cna_conv_con3", "deconv_x", 0, "deconvolution"),
    ("cna_conv_con3", "deconv_y", 0, "deconvolution"),
    ("cna_conv_con3", "conv_x_stride", 1, "strided convolution"),
    ("cna_conv_con3", "conv_y_stride", 1, "strided convolution"),
    ("cna_weight_size2", "width", 1, "kernels wider than one pixel"),
    ("cna_weight_size2", "height", 1, "kernels higher than one pixel"),
    ("cna_data_size3", "surf_mode", 0, "surface mode"),
    ("cna_cbuf_con0", "weight_reuse", 0, "weight reuse between programs"),
    ("cna_cbuf_con0", "data_reuse", 0, "feature reuse between programs"),
    ("cna_cvt_con0", "cvt_bypass", 1, "input conversion"),
    ("cna_pad_con0", "left", 0, "padding"),
    ("cna_pad_con0", "top", 0, "padding"),
    ("cna_dcomp_ctrl", "decomp_control", 0, "compressed weights"),
    ("cna_dcomp_ctrl", "wt_dec_bypass", 0, "compressed weights"),
    ("core_misc_cfg", "dw_en", 0, "depthwise convolution"),
    ("core_clip_truncate", "shift", 0, "accumulator truncation"),
    ("dpu_feature_mode_cfg", "flying_mode", 0, "main data from memory behind a convolution"),
    ("dpu_feature_mode_cfg", "output_mode", 2, "an output that does not go to memory"),
    ("dpu_feature_mode_cfg", "tp_en", 0, "transposed output"),
    ("dpu_feature_mode_cfg", "conv_mode", 0, "depthwise output"),
    ("dpu_feature_mode_cfg", "comb_use", 0, "combined output"),
    ("dpu_data_format", "mc_surf_out", 0, "multi-surface output"),
    ("dpu_bs_ow_cfg", "tp_org_en", 0, "transposed output"),
    ("dpu_wdma_size_0", "tp_precision", 0, "transposed output"),
    ("dpu_bs_cfg", "bypass", 1, "the BS stage (bias, scale, activation)"),
    ("dpu_bn_cfg", "bypass", 1, "the BN stage (per-channel scale, activation)"),
    ("dpu_ew_cfg", "bypass", 1, "the EW stage (element-wise operand, table)"),
    ("dpu_out_cvt_scale", "fp32tofp16_en", 0, "floating-point output conversion"),
    ("dpu_out_cvt_shift", "minus_exp", 0, "floating-point output conversion"),
)

_ZERO_REGISTERS: tuple[tuple[str, str], ...] = (
    ("cna_dcomp_regnum", "compressed weights"),
    ("cna_fc_con0", "fully-connected skip mode"),
    ("cna_fc_con1", "fully-connected skip mode"),
    ("cna_fc_con2", "fully-connected skip mode"),
    ("cna_cvt_con5", "input conversion per channel"),
    *((f"cna_dcomp_amount{i}", "compressed weights") for i in range(16)),
)


def _unsupported(r: RegisterFile) -> Iterator[str]:
    for register, field, value, meaning in _EXECUTED:
        seen = r.field(register, field)
        if seen != value:
            yield f"{meaning} ({register}.{field} = {seen})"
    for register, meaning in _ZERO_REGISTERS:
        if r.get(register):
            yield f"{meaning} ({register} = {r.get(register):#x})"
    precision = r.field("cna_conv_con1", "in_precision")
    if precision not in KERNELS_PER_GROUP:
        yield f"{_precision(precision)} matmul"
    out = r.field("dpu_data_format", "out_precision")
    if out not in OUTPUT_BYTES:
        yield f"{_precision(out)} output of an int8 matmul"
    notch = r.field("dpu_data_cube_notch", "notch_0")
    if notch and not r.field("dpu_data_cube_notch", "notch_1"):
        yield f"panel output (dpu_data_cube_notch.notch_0 = {notch} without notch_1)"


def _precision(code: int) -> str:
    return Precision(code).name.lower()


def _precisions(r: RegisterFile) -> Iterator[str]:
    code = r.field("cna_conv_con1", "in_precision")
    others = {
        "cna_conv_con1.proc_precision": r.field("cna_conv_con1", "proc_precision"),
        "core_misc_cfg.proc_precision": r.field("core_misc_cfg", "proc_precision"),
        "dpu_data_format.in_precision": r.field("dpu_data_format", "in_precision"),
        "dpu_data_format.proc_precision": r.field("dpu_data_format", "proc_precision"),
    }
    for name, seen in others.items():
        if seen != code:
            yield f"{name} is {seen}, cna_conv_con1.in_precision is {code}"


def _geometry(r: RegisterFile) -> Iterator[str]:
    width, height = r.field("cna_data_size0", "datain_width"), r.field("cna_data_size0", "datain_height")
    pixels = width * height
    if pixels == 0:
        yield f"the feature map is {width} x {height}"
        return
    counts = {
        "cna_data_size3.dataout_atomics": r.field("cna_data_size3", "dataout_atomics"),
        "core_dataout_size_0": (r.field("core_dataout_size_0", "width_minus1") + 1)
        * (r.field("core_dataout_size_0", "height_minus1") + 1),
        "dpu_data_cube_width x dpu_data_cube_height": (r.field("dpu_data_cube_width", "width_minus1") + 1)
        * (r.field("dpu_data_cube_height", "height_minus1") + 1),
    }
    for name, seen in counts.items():
        if seen != pixels:
            yield f"{name} says {seen} pixels, cna_data_size0 says {width} x {height} = {pixels}"
    if r.field("cna_data_size2", "dataout_width") != width:
        yield f"cna_data_size2.dataout_width is {r.field('cna_data_size2', 'dataout_width')}, not {width}"
    dma = r.field("cna_fc_data_size0", "dma_width"), r.field("cna_fc_data_size0", "dma_height")
    if dma != (width, height):
        yield f"cna_fc_data_size0 is {dma[0]} x {dma[1]}, cna_data_size0 is {width} x {height}"
    grouped = not r.field("cna_conv_con1", "group_line_off")
    if grouped and height > 1 and height % 4:
        yield f"height {height} is not 1 or a multiple of 4 while lines are read in groups of four"


def _channels(r: RegisterFile) -> Iterator[str]:
    k = r.field("cna_data_size1", "channel")
    if k == 0 or k % CHANNELS_PER_TILE:
        yield f"K = {k} is not a positive multiple of {CHANNELS_PER_TILE}"
    if r.field("cna_data_size1", "channel_real_minus1") + 1 != k:
        yield f"channel_real is {r.field('cna_data_size1', 'channel_real_minus1') + 1}, channel is {k}"
    if r.field("cna_fc_data_size1", "dma_channel") != k:
        yield f"cna_fc_data_size1.dma_channel is {r.field('cna_fc_data_size1', 'dma_channel')}, K is {k}"


def _kernels(r: RegisterFile) -> Iterator[str]:
    n = r.field("cna_weight_size2", "kernels")
    group = KERNELS_PER_GROUP[Precision(r.field("cna_conv_con1", "in_precision"))]
    if n == 0 or n % group:
        yield f"N = {n} is not a positive multiple of {group}"
    if n > RK3588.max_n_per_program:
        yield f"N = {n} is above {RK3588.max_n_per_program}"
    for name, field in (
        ("core_dataout_size_1", "channel_minus1"),
        ("dpu_data_cube_channel", "channel_minus1"),
        ("dpu_wdma_size_0", "channel_minus1"),
    ):
        if r.field(name, field) + 1 != n:
            yield f"{name}.{field} + 1 is {r.field(name, field) + 1}, N is {n}"


def _weights(r: RegisterFile) -> Iterator[str]:
    k, n = r.field("cna_data_size1", "channel"), r.field("cna_weight_size2", "kernels")
    if r.field("cna_weight_size1", "bytes_per_kernel") != k:
        yield f"bytes per kernel is {r.field('cna_weight_size1', 'bytes_per_kernel')}, not {k}"
    if r.get("cna_weight_size0") != k * n:
        yield f"weight bytes are {r.get('cna_weight_size0')}, not {k} x {n} = {k * n}"
    if k > RK3588.cbuf_bank_bytes:
        yield f"one kernel of {k} bytes is larger than a bank of {RK3588.cbuf_bank_bytes}"


def _banks(r: RegisterFile) -> Iterator[str]:
    data, weight = r.field("cna_cbuf_con0", "data_bank"), r.field("cna_cbuf_con0", "weight_bank")
    k = r.field("cna_data_size1", "channel")
    width, height = r.field("cna_data_size0", "datain_width"), r.field("cna_data_size0", "datain_height")
    if data + weight != RK3588.cbuf_banks or not data or not weight:
        yield f"data banks {data} and weight banks {weight} must each be 1 or more and sum to {RK3588.cbuf_banks}"
    if r.field("cna_cbuf_con0", "fc_data_bank"):
        yield f"fc_data_bank is {r.field('cna_cbuf_con0', 'fc_data_bank')}, every working program keeps it 0"
    need = -(-width * height * k // RK3588.cbuf_bank_bytes)
    if need > data:
        yield f"{width} x {height} pixels of {k} bytes need {need} data banks, {data} are given"
    line = -(-k // RK3588.cbuf_entry_bytes)
    entries = {width * line, -(-width * k // RK3588.cbuf_entry_bytes)}
    if r.field("cna_cbuf_con1", "data_entries") not in entries:
        yield f"data entries per line are {r.field('cna_cbuf_con1', 'data_entries')}, not {width * line}"


def _output(r: RegisterFile) -> Iterator[str]:
    group = KERNELS_PER_GROUP[Precision(r.field("cna_conv_con1", "in_precision"))]
    size = OUTPUT_BYTES[Precision(r.field("dpu_data_format", "out_precision"))]
    units = group * size // RK3588.atom_bytes
    for field in ("size_e_0", "size_e_1", "size_e_2"):
        if r.field("dpu_bs_ow_cfg", field) + 1 != units:
            yield f"{field} is {r.field('dpu_bs_ow_cfg', field)}, {units} units of 16 bytes need {units - 1}"
    if r.field("dpu_out_cvt_shift", "shift") > MAX_SHIFT:
        yield f"output shift {r.field('dpu_out_cvt_shift', 'shift')} is above {MAX_SHIFT}"


def _addresses(r: RegisterFile) -> Iterator[str]:
    for name in ("cna_feature_data_addr", "cna_dcomp_addr0", "dpu_dst_base_addr"):
        if r.get(name) % RK3588.atom_bytes:
            yield f"{name} = {r.get(name):#x} is not a multiple of {RK3588.atom_bytes}"


# Order matters: later rules divide by what earlier ones have established.
_RULES: tuple[tuple[str, Callable[[RegisterFile], Iterator[str]]], ...] = (
    ("precision", _precisions),
    ("geometry", _geometry),
    ("K", _channels),
    ("N", _kernels),
    ("weights", _weights),
    ("banks", _banks),
    ("output", _output),
    ("alignment", _addresses),
)


def check_convolution(registers: RegisterFile) -> None:
    """Raise UnsupportedOperation or ProgramError for the first rule the current groups break."""
    for operation in _unsupported(registers):
        raise UnsupportedOperation(operation)
    for rule, problems in _RULES:
        for problem in problems(registers):
            raise ProgramError(rule, problem)
