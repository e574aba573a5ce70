"""The rules a convolution program must keep, as one table.

Hardware does not check most of them, it computes something else. The simulator stops instead and
names the rule, so that a driver fault shows up where it is made. First what this simulator cannot
execute (checked in the order of the datapath), then what is inconsistent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from orkbench_tui.driver.regcmd.registers import Precision
from orkbench_tui.driver.soc import RK3588
from orkbench_tui.sim.chip.dpu_rules import differing, dpu_inconsistent, dpu_unsupported, precision_name
from orkbench_tui.sim.chip.faults import ProgramError, UnsupportedOperation
from orkbench_tui.sim.chip.precisions import ELEMENTS, MATMUL_INPUTS, MatmulInput
from orkbench_tui.sim.chip.rdma_rules import check_operands
from orkbench_tui.sim.chip.register_file import RegisterFile

__all__ = ["check_convolution"]

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
    ("cna_cbuf_con0", "data_reuse", 0, "feature reuse between programs"),
    ("cna_cvt_con0", "cvt_bypass", 1, "input conversion"),
    ("cna_pad_con0", "left", 0, "padding"),
    ("cna_pad_con0", "top", 0, "padding"),
    ("cna_dcomp_ctrl", "decomp_control", 0, "compressed weights"),
    ("cna_dcomp_ctrl", "wt_dec_bypass", 0, "compressed weights"),
    ("core_misc_cfg", "dw_en", 0, "depthwise convolution"),
    ("core_clip_truncate", "shift", 0, "accumulator truncation"),
    ("dpu_feature_mode_cfg", "flying_mode", 0, "main data from memory behind a convolution"),
)

_ZERO_REGISTERS: tuple[tuple[str, str], ...] = (
    ("cna_dcomp_regnum", "compressed weights"),
    ("cna_fc_con0", "fully-connected skip mode"),
    ("cna_fc_con1", "fully-connected skip mode"),
    ("cna_fc_con2", "fully-connected skip mode"),
    ("cna_cvt_con5", "input conversion per channel"),
    ("dpu_bs_ow_op", "weight zero points"),
    *((f"cna_dcomp_amount{i}", "compressed weights") for i in range(16)),
)


def _precision(r: RegisterFile) -> Precision:
    return Precision(r.field("cna_conv_con1", "in_precision"))


def _input(r: RegisterFile) -> MatmulInput:
    return MATMUL_INPUTS[_precision(r)]


def _row_bytes(r: RegisterFile) -> int:
    """Bytes of one kernel, and of one pixel's features."""
    return r.field("cna_data_size1", "channel") * ELEMENTS[_precision(r)].bits // 8


def _unsupported(r: RegisterFile) -> Iterator[str]:
    yield from differing(r, _EXECUTED)
    for register, meaning in _ZERO_REGISTERS:
        if r.get(register):
            yield f"{meaning} ({register} = {r.get(register):#x})"
    if _precision(r) not in MATMUL_INPUTS:
        yield f"{precision_name(_precision(r))} matmul"
    out = Precision(r.field("dpu_data_format", "out_precision"))
    if out not in _input(r).outputs:
        yield f"{precision_name(out)} output of {precision_name(_precision(r))} matmul"


def _precisions(r: RegisterFile) -> Iterator[str]:
    code, dpu = _precision(r), _input(r).dpu
    for name, field, expected in (
        ("cna_conv_con1", "proc_precision", code),
        ("core_misc_cfg", "proc_precision", code),
        ("dpu_data_format", "in_precision", dpu),
        ("dpu_data_format", "proc_precision", dpu),
    ):
        seen = r.field(name, field)
        if seen != expected:
            yield f"{name}.{field} is {seen}, a {precision_name(code)} matmul takes {int(expected)}"


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
    k, granule = r.field("cna_data_size1", "channel"), _input(r).k_granule
    if k == 0 or k % granule:
        yield f"K = {k} is not a positive multiple of {granule}"
    if r.field("cna_data_size1", "channel_real_minus1") + 1 != k:
        yield f"channel_real is {r.field('cna_data_size1', 'channel_real_minus1') + 1}, channel is {k}"
    if r.field("cna_fc_data_size1", "dma_channel") != k:
        yield f"cna_fc_data_size1.dma_channel is {r.field('cna_fc_data_size1', 'dma_channel')}, K is {k}"


def _kernels(r: RegisterFile) -> Iterator[str]:
    n = r.field("cna_weight_size2", "kernels")
    group = _input(r).kernel_group
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
    row, n = _row_bytes(r), r.field("cna_weight_size2", "kernels")
    if r.field("cna_weight_size1", "bytes_per_kernel") != row:
        yield f"bytes per kernel is {r.field('cna_weight_size1', 'bytes_per_kernel')}, not {row}"
    if r.get("cna_weight_size0") != row * n:
        yield f"weight bytes are {r.get('cna_weight_size0')}, not {row} x {n} = {row * n}"
    if row > RK3588.cbuf_bank_bytes:
        yield f"one kernel of {row} bytes is larger than a bank of {RK3588.cbuf_bank_bytes}"


def _banks(r: RegisterFile) -> Iterator[str]:
    data, weight = r.field("cna_cbuf_con0", "data_bank"), r.field("cna_cbuf_con0", "weight_bank")
    row = _row_bytes(r)
    width, height = r.field("cna_data_size0", "datain_width"), r.field("cna_data_size0", "datain_height")
    if data + weight != RK3588.cbuf_banks or not data or not weight:
        yield f"data banks {data} and weight banks {weight} must each be 1 or more and sum to {RK3588.cbuf_banks}"
    if r.field("cna_cbuf_con0", "fc_data_bank"):
        yield f"fc_data_bank is {r.field('cna_cbuf_con0', 'fc_data_bank')}, every working program keeps it 0"
    need = -(-width * height * row // RK3588.cbuf_bank_bytes)
    if need > data:
        yield f"{width} x {height} pixels of {row} bytes need {need} data banks, {data} are given"
    line = -(-row // RK3588.cbuf_entry_bytes)
    entries = {width * line, -(-width * row // RK3588.cbuf_entry_bytes)}
    if r.field("cna_cbuf_con1", "data_entries") not in entries:
        yield f"data entries per line are {r.field('cna_cbuf_con1', 'data_entries')}, not {width * line}"


def _output(r: RegisterFile) -> Iterator[str]:
    size = ELEMENTS[Precision(r.field("dpu_data_format", "out_precision"))].bytes
    units = _input(r).kernel_group * size // RK3588.atom_bytes
    for field in ("size_e_0", "size_e_1", "size_e_2"):
        if r.field("dpu_bs_ow_cfg", field) + 1 != units:
            yield f"{field} is {r.field('dpu_bs_ow_cfg', field)}, {units} units of 16 bytes need {units - 1}"
    yield from dpu_inconsistent(r)


def _addresses(r: RegisterFile) -> Iterator[str]:
    for name in ("cna_feature_data_addr", "cna_dcomp_addr0"):
        if r.get(name) % RK3588.atom_bytes:
            yield f"{name} = {r.get(name):#x} is not a multiple of {RK3588.atom_bytes}"


# Order matters: later rules divide by what earlier ones have established.
_RULES: tuple[tuple[str, Callable[[RegisterFile], Iterator[str]]], ...] = (
    ("geometry", _geometry),
    ("K", _channels),
    ("N", _kernels),
    ("weights", _weights),
    ("banks", _banks),
    ("output", _output),
    ("alignment", _addresses),
)


def check_convolution(registers: RegisterFile, *, read_engines: bool = False) -> None:
    """Check the convolution in the current groups; ``read_engines`` when the DPU's are launched with it.

    Raises:
        UnsupportedOperation, ProgramError, NeverCompletes: the first rule broken.
    """
    for operation in _unsupported(registers):
        raise UnsupportedOperation(operation)
    for problem in _precisions(registers):
        raise ProgramError("precision", problem)
    for operation in dpu_unsupported(registers):
        raise UnsupportedOperation(operation)
    for rule, problems in _RULES:
        for problem in problems(registers):
            raise ProgramError(rule, problem)
    check_operands(
        registers,
        convolution=True,
        read_engines=read_engines,
        pixels=registers.field("cna_data_size3", "dataout_atomics"),
        channels=registers.field("cna_weight_size2", "kernels"),
    )
