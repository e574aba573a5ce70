"""Rules of the DPU's read engines: what an operand needs, and when the DPU waits for ever."""

from __future__ import annotations

from collections.abc import Iterator

from orkbench_tui.driver.regcmd.registers import Precision
from orkbench_tui.driver.soc import RK3588
from orkbench_tui.sim.chip.dpu_operation import ALU_CODES, UNARY
from orkbench_tui.sim.chip.dpu_rules import differing, precision_name
from orkbench_tui.sim.chip.faults import NeverCompletes, ProgramError, UnsupportedOperation
from orkbench_tui.sim.chip.precisions import ELEMENTS
from orkbench_tui.sim.chip.rdma_operation import (
    ALTERNATING,
    BIAS,
    BIAS_AND_FACTOR,
    FACTOR,
    PER_CHANNEL,
    PER_ELEMENT,
)
from orkbench_tui.sim.chip.register_file import RegisterFile

__all__ = ["OPERAND_TYPES", "check_operands"]

ATOM = RK3588.atom_bytes

OPERAND_TYPES: dict[tuple[Precision, int], Precision] = {
    (Precision.INT8, 1): Precision.INT8,
    (Precision.INT16, 2): Precision.INT16,
    (Precision.INT32, 4): Precision.INT32,
    (Precision.FP16, 2): Precision.FP16,
    (Precision.FP32, 4): Precision.FP32,
}
"""(pipeline, operand bytes) to the operand's type. In an fp32 pipeline it is an fp16 value in the low half."""

_DATA_USE = {(True, False): BIAS, (False, True): FACTOR, (True, True): BIAS_AND_FACTOR}
_STAGES = (
    ("bs", "rdma_brdma_cfg", "rdma_bs_base_addr", {BIAS, BIAS_AND_FACTOR}),
    ("bn", "rdma_nrdma_cfg", "rdma_bn_base_addr", {FACTOR}),
)
_ELEMENT_EXECUTED: tuple[tuple[str, str, int, str], ...] = (
    ("rdma_erdma_cfg", "surf_mode", 0, "operand surface mode"),
    ("rdma_erdma_cfg", "nonalign", 0, "unaligned operands"),
)
_MAIN_EXECUTED: tuple[tuple[str, str, int, str], ...] = (
    ("rdma_feature_mode_cfg", "conv_mode", 0, "depthwise main data"),
    ("rdma_src_dma_cfg", "pooling", 0, "unpooling on the way in"),
)
_ZERO = (("rdma_pad_cfg", "padded main data"),)


def check_operands(
    r: RegisterFile, *, convolution: bool, read_engines: bool, pixels: int, channels: int
) -> None:
    """Check what the output stage reads besides a convolution's sums or a stand-alone program's main data.

    Raises:
        UnsupportedOperation, ProgramError, NeverCompletes: the first rule broken.
    """
    for name, config, base, known in _STAGES:
        _channel_operands(r, name, config, base, known, read_engines)
    if r.field("dpu_bs_ow_cfg", "ow_src") and r.field("rdma_brdma_cfg", "data_use") != BIAS_AND_FACTOR:
        raise UnsupportedOperation("weight zero points from memory without a parameter block")
    element = _element_operand(r)
    if element and not read_engines:
        raise NeverCompletes("operand", "EW waits for operands from memory and the read engines are off")
    if not read_engines:
        return
    main = not r.field("rdma_feature_mode_cfg", "mrdma_disable")
    if convolution and main and not element:
        raise NeverCompletes(
            "operand", "the main read engine is on beside a convolution and nothing takes its data"
        )
    if not convolution and not main:
        raise NeverCompletes("operand", "the DPU waits for main data and the main read engine is disabled")
    if element:
        _check_element(r, convolution)
    if main or element:
        _check_main(r, pixels, channels)


def _channel_operands(
    r: RegisterFile, name: str, config: str, base: str, known: set[int], read_engines: bool
) -> None:
    stage = f"dpu_{name}_cfg"
    if r.field(stage, "bypass"):
        return
    alu = not r.field(stage, "alu_bypass") and bool(r.field(stage, "alu_src"))
    factor = not r.field(stage, "mul_bypass") and bool(r.field(f"dpu_{name}_mul_cfg", "mul_src"))
    if not alu and not factor:
        return
    if not read_engines:
        raise NeverCompletes(
            "operand", f"{name.upper()} waits for operands from memory and the read engines are off"
        )
    use, need = r.field(config, "data_use"), _DATA_USE[alu, factor]
    if use == 0:
        raise NeverCompletes(
            "operand", f"{name.upper()} waits for operands from memory and {config} fetches none"
        )
    floating = ELEMENTS[Precision(r.field("dpu_data_format", "proc_precision"))].floating
    if use != need or use not in known or (floating and use != FACTOR):
        kind = "floating-point" if floating else "integer"
        raise UnsupportedOperation(
            f"{kind} {name.upper()} operands from memory with data use {use}, {need} expected"
        )
    if r.get(base) % ATOM:
        raise ProgramError("alignment", f"{base} = {r.get(base):#x} is not a multiple of {ATOM}")


def _element_operand(r: RegisterFile) -> bool:
    config = "dpu_ew_cfg"
    if r.field(config, "bypass") or r.field(config, "op_bypass") or not r.field(config, "op_src"):
        return False
    return bool(r.field(config, "op_type")) or ALU_CODES[r.field(config, "alu_algo")] not in UNARY


def _check_element(r: RegisterFile, convolution: bool) -> None:
    if r.field("rdma_erdma_cfg", "disable"):
        raise NeverCompletes(
            "operand", "EW waits for operands from memory and the element read engine is disabled"
        )
    for problem in _element_unsupported(r, convolution):
        raise UnsupportedOperation(problem)
    for rule, problem in _element_inconsistent(r):
        raise ProgramError(rule, problem)


def _element_unsupported(r: RegisterFile, convolution: bool) -> Iterator[str]:
    yield from differing(r, _ELEMENT_EXECUTED)
    process = Precision(r.field("dpu_data_format", "proc_precision"))
    size = (1 << r.field("dpu_ew_cfg", "edata_size")) // 2
    if (process, size) not in OPERAND_TYPES:
        yield f"element-wise operands of {size} bytes in a {precision_name(process)} pipeline"
    if process is Precision.FP32 and not r.field("dpu_ew_cfg", "op_type"):
        yield "element-wise operations other than multiplication in fp32"
    mode = r.field("rdma_erdma_cfg", "data_mode")
    if mode not in (PER_CHANNEL, PER_ELEMENT) or r.field("dpu_ew_cfg", "data_mode") > PER_ELEMENT:
        yield f"element-wise operands in data mode {mode}"
    if mode == PER_CHANNEL and process is not Precision.INT16:
        yield f"element-wise operands per channel in a {precision_name(process)} pipeline"
    comb = r.field("rdma_feature_mode_cfg", "comb_use")
    if convolution and (comb != ALTERNATING or process is not Precision.FP16 or mode != PER_ELEMENT):
        yield f"element-wise operands beside a {precision_name(process)} convolution with comb_use {comb}"
    if convolution and r.field("rdma_feature_mode_cfg", "mrdma_disable"):
        yield "element-wise operands beside a convolution from one engine"


def _element_inconsistent(r: RegisterFile) -> Iterator[tuple[str, str]]:
    sizes = r.field("dpu_ew_cfg", "edata_size"), r.field("rdma_erdma_cfg", "data_size")
    if sizes[0] != sizes[1]:
        yield "operand size", f"dpu_ew_cfg.edata_size is {sizes[0]}, rdma_erdma_cfg.data_size is {sizes[1]}"
    for name in ("rdma_ew_base_addr", "rdma_ew_surf_stride", "rdma_ew_surf_notch"):
        if r.get(name) % ATOM:
            yield "alignment", f"{name} = {r.get(name):#x} is not a multiple of {ATOM}"


def _check_main(r: RegisterFile, pixels: int, channels: int) -> None:
    for problem in differing(r, _MAIN_EXECUTED):
        raise UnsupportedOperation(problem)
    for name, meaning in _ZERO:
        if r.get(name):
            raise UnsupportedOperation(f"{meaning} ({name} = {r.get(name):#x})")
    for name in ("in_precision", "proc_precision"):
        main, dpu = r.field("rdma_feature_mode_cfg", name), r.field("dpu_data_format", name)
        if main != dpu:
            raise ProgramError(
                "precision", f"rdma_feature_mode_cfg.{name} is {main}, dpu_data_format has {dpu}"
            )
    seen = (r.field("rdma_data_cube_width", "width_minus1") + 1) * (
        r.field("rdma_data_cube_height", "height_minus1") + 1
    )
    if seen != pixels:
        raise ProgramError("geometry", f"the read engines are set to {seen} pixels, the output to {pixels}")
    if r.field("rdma_data_cube_channel", "channel_minus1") + 1 != channels:
        seen = r.field("rdma_data_cube_channel", "channel_minus1") + 1
        raise ProgramError(
            "geometry", f"the read engines are set to {seen} channels, the output to {channels}"
        )
    for name in ("rdma_src_base_addr", "rdma_surf_notch"):
        if r.get(name) % ATOM:
            raise ProgramError("alignment", f"{name} = {r.get(name):#x} is not a multiple of {ATOM}")
