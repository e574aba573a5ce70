"""Register programs of the element-wise unit: a row, a shape and the numbers become a 69-word body.

An operation works on a cube of ``rows`` x ``channels``. A program may take a slice of rows out of a
larger cube: notches skip the rows that are not its own.

Sources: docs/fidelity.md, "register programs".
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from orkbench_tui.driver.failures import OperandError
from orkbench_tui.driver.regcmd.programs import MTX_ORDER, OutputConversion
from orkbench_tui.driver.regcmd.registers import Precision, value_of
from orkbench_tui.driver.regcmd.words import encode_all, padded_body_words
from orkbench_tui.driver.sdp.formats import FORMATS, SdpFormat, checked_rows
from orkbench_tui.driver.sdp.table import Ew, Operand, OpRow

__all__ = [
    "EW_BYPASSED",
    "PINGPONG",
    "RDMA_ORDER",
    "SDP_ORDER",
    "SDP_WORDS",
    "ElementNumbers",
    "SdpNumbers",
    "SdpShape",
    "StageNumbers",
    "body_of",
    "ew_word",
    "geometry",
    "sdp_body",
    "sdp_registers",
    "stage_registers",
]

RDMA_ORDER = (
    "rdma_s_pointer", "rdma_data_cube_width", "rdma_data_cube_height", "rdma_data_cube_channel", "rdma_src_base_addr",
    "rdma_brdma_cfg", "rdma_bs_base_addr", "rdma_nrdma_cfg", "rdma_bn_base_addr", "rdma_erdma_cfg",
    "rdma_ew_base_addr", "rdma_ew_surf_stride", "rdma_feature_mode_cfg", "rdma_src_dma_cfg", "rdma_surf_notch",
    "rdma_pad_cfg", "rdma_weight", "rdma_ew_surf_notch",
)  # fmt: skip
"""The read engine's registers, as a program behind a matmul writes them."""

SDP_ORDER = (
    "dpu_s_pointer",
    "rdma_s_pointer",
    *(name for name in MTX_ORDER if name.startswith("dpu_") and name != "dpu_s_pointer"),
    *RDMA_ORDER[1:],
)
SDP_WORDS = len(SDP_ORDER)

PINGPONG = value_of("dpu_s_pointer", pointer_pp_en=1, executer_pp_en=1, pointer_pp_mode=1)
EW_BYPASSED = value_of("dpu_ew_cfg", relu_bypass=1, op_cvt_bypass=1, lut_bypass=1, op_bypass=1, bypass=1)
_ATOM = 16
_EQUAL_ARBITER_WEIGHTS = 0x01010101
_PER_ELEMENT = 1
_FACTOR = 4


@dataclass(frozen=True, slots=True)
class StageNumbers:
    """Operands of BS or BN: 32-bit addend, 16-bit factor (both as register bits), right shift."""

    alu: int = 0
    factor: int = 0
    shift: int = 0


@dataclass(frozen=True, slots=True)
class ElementNumbers:
    """The converter of EW's operand: ``(operand + offset) * scale >> shift``."""

    offset: int = 0
    scale: int = 1
    shift: int = 0


@dataclass(frozen=True, slots=True)
class SdpNumbers:
    """Everything numeric a program carries besides its shape."""

    bs: StageNumbers = field(default_factory=StageNumbers)
    bn: StageNumbers = field(default_factory=StageNumbers)
    ew: ElementNumbers = field(default_factory=ElementNumbers)
    convert: OutputConversion = field(default_factory=OutputConversion)


@dataclass(frozen=True, slots=True)
class SdpShape:
    """One program: ``rows`` x ``channels``, and the addresses of main data, second operand and result.

    ``cube_rows`` are the rows of the cubes the slice lies in, 0 for cubes of its own; ``out_rows`` the
    same for the result when it differs.
    """

    rows: int
    channels: int
    a: int
    c: int
    b: int = 0
    cube_rows: int = 0
    out_rows: int = 0


def ew_word(ew: Ew, format: SdpFormat) -> int:
    """The EW configuration of an operation; integer operands are offset before they are scaled."""
    return value_of(
        "dpu_ew_cfg",
        cvt_type=int(ew.convert and not format.floating),
        data_mode=int(not ew.unary),
        edata_size=format.size_code,
        alu_algo=ew.alu or 0,
        relu_bypass=1,
        op_cvt_bypass=int(not ew.convert),
        lut_bypass=1,
        op_src=int(not ew.unary),
        op_type=int(ew.alu is None),
    )


def geometry(format: SdpFormat, shape: SdpShape, out: SdpFormat | None = None) -> dict[str, int]:
    """The shape and address registers of one program.

    Raises:
        RefusedError: more rows than a program finishes (GRD-17).
        OperandError: channels that do not fill atoms, a slice larger than its cube, or a misaligned address.
    """
    checked_rows(format, shape.rows)
    if shape.channels < 1 or shape.channels % format.per_atom or shape.channels > format.max_channels:
        raise OperandError(
            f"{shape.channels} channels of {format.name}: allowed are multiples of {format.per_atom} "
            f"up to {format.max_channels}"
        )
    for address in (shape.a, shape.b, shape.c):
        if address % _ATOM or not 0 <= address < 1 << 32:
            raise OperandError(f"address {address:#x}: allowed are multiples of {_ATOM} below 2**32")
    cube, result = shape.cube_rows or shape.rows, shape.out_rows or shape.cube_rows or shape.rows
    if min(cube, result) < shape.rows:
        raise OperandError(f"{shape.rows} rows out of cubes of {cube} and {result}")
    last, channel = shape.rows - 1, shape.channels - 1
    notch = _ATOM * (cube - shape.rows)
    return {
        "dpu_dst_base_addr": shape.c,
        "dpu_dst_surf_stride": _ATOM * result,
        "dpu_surface_add": _ATOM * result,
        "dpu_data_cube_width": value_of("dpu_data_cube_width", width_minus1=last),
        "dpu_data_cube_channel": value_of(
            "dpu_data_cube_channel", orig_channel_minus1=channel, channel_minus1=channel
        ),
        "dpu_wdma_size_0": value_of("dpu_wdma_size_0", channel_minus1=channel),
        "dpu_wdma_size_1": value_of("dpu_wdma_size_1", width_minus1=last),
        "rdma_data_cube_width": value_of("rdma_data_cube_width", width_minus1=last),
        "rdma_data_cube_channel": value_of("rdma_data_cube_channel", channel_minus1=channel),
        "rdma_src_base_addr": shape.a,
        "rdma_ew_base_addr": shape.b,
        "rdma_ew_surf_stride": _ATOM * shape.rows,
        "rdma_surf_notch": notch,
        "rdma_ew_surf_notch": notch,
    }


def stage_registers(
    stage: str, config: int, numbers: StageNumbers, *, from_memory: bool = False
) -> dict[str, int]:
    """BS or BN without the shift for negative values, which ``data_format`` sets."""
    mul = f"dpu_{stage}_mul_cfg"
    return {
        f"dpu_{stage}_cfg": config,
        f"dpu_{stage}_alu_cfg": numbers.alu & 0xFFFF_FFFF,
        mul: value_of(mul, operand=numbers.factor & 0xFFFF, shift=numbers.shift, mul_src=int(from_memory)),
    }


def data_format(into: Precision, out: Precision, numbers: SdpNumbers) -> int:
    """DATA_FORMAT. Negative values have shifts of their own: unequal ones halve or double every negative result."""
    return value_of(
        "dpu_data_format",
        out_precision=out,
        in_precision=into,
        proc_precision=into,
        bs_mul_shift_neg=numbers.bs.shift,
        bn_mul_shift_neg=numbers.bn.shift,
    )


def output_registers(out: Precision, convert: OutputConversion) -> dict[str, int]:
    return {
        "dpu_out_cvt_offset": convert.offset & 0xFFFF_FFFF,
        "dpu_out_cvt_scale": value_of(
            "dpu_out_cvt_scale", fp32tofp16_en=int(out is Precision.FP16), scale=convert.scale
        ),
        "dpu_out_cvt_shift": value_of("dpu_out_cvt_shift", shift=convert.shift),
    }


def sdp_registers(row: OpRow, shape: SdpShape, numbers: SdpNumbers | None = None) -> dict[str, int]:
    """Every register of one element-wise program by name; those left out are zero.

    Raises:
        RefusedError, OperandError: see ``geometry``.
        ValueError: a number that does not fit its field.
    """
    numbers = numbers or SdpNumbers()
    format = FORMATS[row.dtype]
    out = FORMATS[row.out or row.dtype]
    reads_element = row.operand is Operand.ELEMENT
    per_channel = row.operand is Operand.CHANNEL
    values = {
        "dpu_s_pointer": PINGPONG,
        "rdma_s_pointer": PINGPONG,
        "dpu_feature_mode_cfg": value_of("dpu_feature_mode_cfg", burst_len=15, output_mode=2, flying_mode=1),
        "dpu_data_format": data_format(format.precision, out.precision, numbers),
        "dpu_bs_ow_cfg": value_of("dpu_bs_ow_cfg", od_bypass=1),
        **stage_registers("bs", row.bs.word, numbers.bs),
        **stage_registers("bn", row.bn.word, numbers.bn, from_memory=per_channel),
        "dpu_ew_cfg": EW_BYPASSED if row.ew is None else ew_word(row.ew, format),
        "dpu_ew_cvt_offset": numbers.ew.offset & 0xFFFF_FFFF,
        "dpu_ew_cvt_scale": value_of("dpu_ew_cvt_scale", scale=numbers.ew.scale, shift=numbers.ew.shift),
        **output_registers(out.precision, numbers.convert),
        **geometry(format, shape, out),
        "rdma_erdma_cfg": value_of(
            "rdma_erdma_cfg",
            data_mode=_PER_ELEMENT,
            data_size=format.size_code,
        )
        if reads_element
        else value_of("rdma_erdma_cfg", disable=1),
        "rdma_feature_mode_cfg": format.main_data,
        "rdma_weight": _EQUAL_ARBITER_WEIGHTS,
    }
    if per_channel:
        values["rdma_nrdma_cfg"] = value_of("rdma_nrdma_cfg", data_use=_FACTOR)
        values["rdma_bn_base_addr"] = shape.b
    if not reads_element:
        for name in ("rdma_ew_base_addr", "rdma_ew_surf_stride", "rdma_ew_surf_notch"):
            values[name] = 0
    return values


def body_of(values: dict[str, int], order: tuple[str, ...] = SDP_ORDER) -> np.ndarray:
    """Registers as a program body, padded with a NOP to an even length; uint64 [n].

    Raises:
        ValueError: a register the order does not write.
    """
    if missing := values.keys() - set(order):
        raise ValueError(f"registers {sorted(missing)} are not part of the program")
    words = encode_all((name, values.get(name, 0)) for name in order)
    return np.concatenate([words, np.zeros(padded_body_words(len(words)) - len(words), dtype=np.uint64)])


def sdp_body(row: OpRow, shape: SdpShape, numbers: SdpNumbers | None = None) -> np.ndarray:
    """One element-wise program; uint64 [70], the last word a NOP."""
    return body_of(sdp_registers(row, shape, numbers))
