"""Matmul register programs: a shape and three addresses become a body of register writes.

A matmul is a 1x1 convolution: A is the feature map, B the kernels, rows are pixels. How A and C lie
in memory is the *geometry*; which number formats are used is the *precision*. Both are data, so a
program is the constant registers, overlaid with the precision's and the geometry's.

Sources: docs/fidelity.md, "register programs".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from orkbench_tui.driver.regcmd.registers import REGISTERS, Precision, value_of
from orkbench_tui.driver.regcmd.words import encode_all
from orkbench_tui.driver.soc import Soc

__all__ = [
    "BF16_TO_FP32",
    "BODY_WORDS",
    "FP16_TO_FP16",
    "FP16_TO_FP32",
    "GEOMETRIES",
    "INT4_TO_INT16",
    "INT8_TO_FP16",
    "INT8_TO_FP32",
    "INT8_TO_INT8",
    "INT8_TO_INT16",
    "INT8_TO_INT32",
    "INT16_TO_INT32",
    "MTX_ORDER",
    "PRECISIONS",
    "RKNN_ORDER",
    "TF32_TO_FP32",
    "MatmulPrecision",
    "MatmulShape",
    "OutputConversion",
    "data_banks",
    "matmul_body",
    "registers_for",
]


@dataclass(frozen=True, slots=True)
class MatmulPrecision:
    """Number formats of one matmul flavour.

    ``kernel_group`` is how many output channels the chip computes together (KG); ``k_granule`` is
    what K must be a multiple of.
    """

    name: str
    code: Precision
    out: Precision
    proc: Precision
    dpu_in: Precision
    input_bits: int
    output_bytes: int
    kernel_group: int
    k_granule: int
    out_scale: int = 1

    def row_bytes(self, k: int) -> int:
        """Bytes of ``k`` input elements."""
        return k * self.input_bits // 8

    @property
    def units(self) -> int:
        """16-byte units a pixel's kernel group fills on output (U)."""
        return self.kernel_group * self.output_bytes // 16


def _precision(
    name: str,
    code: Precision,
    out: Precision,
    bits: int,
    out_bytes: int,
    group: int,
    granule: int = 32,
    **more: int,
) -> MatmulPrecision:
    # The DPU has no tf32 code; it is handed such sums as fp32.
    dpu = Precision.FP32 if code is Precision.TF32 else code
    return MatmulPrecision(name, code, out, dpu, dpu, bits, out_bytes, group, granule, **more)


_NARROW_TO_FP16 = value_of("dpu_out_cvt_scale", fp32tofp16_en=1, scale=1)

INT8_TO_INT32 = _precision("int8->int32", Precision.INT8, Precision.INT32, 8, 4, 32)
INT8_TO_INT16 = _precision("int8->int16", Precision.INT8, Precision.INT16, 8, 2, 32)
INT8_TO_INT8 = _precision("int8->int8", Precision.INT8, Precision.INT8, 8, 1, 32)
INT8_TO_FP32 = _precision("int8->fp32", Precision.INT8, Precision.FP32, 8, 4, 32)
INT8_TO_FP16 = _precision("int8->fp16", Precision.INT8, Precision.FP16, 8, 2, 32)
INT16_TO_INT32 = _precision("int16->int32", Precision.INT16, Precision.INT32, 16, 4, 16)
FP16_TO_FP32 = _precision("fp16->fp32", Precision.FP16, Precision.FP32, 16, 4, 16)
FP16_TO_FP16 = _precision("fp16->fp16", Precision.FP16, Precision.FP16, 16, 2, 16, out_scale=_NARROW_TO_FP16)
BF16_TO_FP32 = _precision("bf16->fp32", Precision.BF16, Precision.FP32, 16, 4, 16)
TF32_TO_FP32 = _precision("tf32->fp32", Precision.TF32, Precision.FP32, 32, 4, 16, granule=16)
INT4_TO_INT16 = _precision("int4->int16", Precision.INT4, Precision.INT16, 4, 2, 64)

PRECISIONS: dict[str, MatmulPrecision] = {
    p.name: p
    for p in (
        INT8_TO_INT32, INT8_TO_INT16, INT8_TO_INT8, INT8_TO_FP32, INT8_TO_FP16, INT16_TO_INT32, FP16_TO_FP32,
        FP16_TO_FP16, BF16_TO_FP32, TF32_TO_FP32, INT4_TO_INT16,
    )
}  # fmt: skip
"""Every matmul flavour the builder can express, by name."""


@dataclass(frozen=True, slots=True)
class OutputConversion:
    """The output stage: ``y = round(acc * scale / 2**shift) + offset``, half to even, saturated.

    ``scale`` fits 15 bits, ``shift`` 0 to 31, ``offset`` 32 bits signed.
    """

    scale: int = 1
    shift: int = 0
    offset: int = 0

    def __post_init__(self) -> None:
        for name, value, low, high in (
            ("scale", self.scale, 0, 0x7FFF),
            ("shift", self.shift, 0, 31),
            ("offset", self.offset, -(1 << 31), (1 << 31) - 1),
        ):
            if not low <= value <= high:
                raise ValueError(f"output conversion: {name} = {value}, allowed {low} to {high}")


@dataclass(frozen=True, slots=True)
class MatmulShape:
    """One program's matmul: ``rows`` x ``k`` by ``k`` x ``n``, and where its operands are.

    ``a_pitch`` and ``c_pitch`` are row pitches in elements for row-major operands; for cubes
    ``cube_rows`` is the row count of the whole cube the slice is cut from. ``data_banks`` 0 takes the
    fewest banks the rows fit. ``reuse_weights`` computes with what the program before it loaded.
    """

    rows: int
    k: int
    n: int
    a: int
    b: int
    c: int
    a_pitch: int = 0
    c_pitch: int = 0
    cube_rows: int = 0
    data_banks: int = 0
    reuse_weights: bool = False


def _range(prefix: str, count: int) -> tuple[str, ...]:
    return tuple(f"{prefix}{i}" for i in range(count))


_CNA_HEAD = (
    "cna_conv_con2",
    "cna_conv_con3",
    "cna_data_size0",
    "cna_data_size1",
    "cna_data_size2",
    "cna_data_size3",
)
_CNA_MID = (
    "cna_weight_size0", "cna_weight_size1", "cna_weight_size2", "cna_cbuf_con0", "cna_cbuf_con1", "cna_cvt_con0",
    "cna_cvt_con1", "cna_cvt_con2", "cna_cvt_con3", "cna_cvt_con4", "cna_fc_con0", "cna_fc_con1", "cna_pad_con0",
    "cna_feature_data_addr", "cna_fc_con2", "cna_dma_con0", "cna_dma_con1", "cna_dma_con2", "cna_fc_data_size0",
    "cna_fc_data_size1", "cna_dcomp_ctrl", "cna_dcomp_regnum", "cna_dcomp_addr0", *_range("cna_dcomp_amount", 16),
    "cna_cvt_con5", "cna_pad_con1",
)  # fmt: skip
_CORE = (
    "core_misc_cfg",
    "core_dataout_size_0",
    "core_dataout_size_1",
    "core_clip_truncate",
    "core_undocumented",
)
_DPU = (
    "dpu_feature_mode_cfg", "dpu_data_format", "dpu_offset_pend", "dpu_dst_base_addr", "dpu_dst_surf_stride",
    "dpu_data_cube_width", "dpu_data_cube_height", "dpu_data_cube_notch", "dpu_data_cube_channel", "dpu_bs_cfg",
    "dpu_bs_alu_cfg", "dpu_bs_mul_cfg", "dpu_bs_relux_cmp", "dpu_bs_ow_cfg", "dpu_bs_ow_op", "dpu_wdma_size_0",
    "dpu_wdma_size_1", "dpu_bn_cfg", "dpu_bn_alu_cfg", "dpu_bn_mul_cfg", "dpu_bn_relux_cmp", "dpu_ew_cfg",
    "dpu_ew_cvt_offset", "dpu_ew_cvt_scale", "dpu_ew_relux_cmp", "dpu_out_cvt_offset", "dpu_out_cvt_scale",
    "dpu_out_cvt_shift", *_range("dpu_ew_op_value_", 8), "dpu_surface_add", "dpu_undocumented",
    "dpu_lut_access_cfg", "dpu_lut_access_data", "dpu_lut_cfg", "dpu_lut_info", "dpu_lut_le_start",
    "dpu_lut_le_end", "dpu_lut_lo_start", "dpu_lut_lo_end", "dpu_lut_le_slope_scale", "dpu_lut_le_slope_shift",
    "dpu_lut_lo_slope_scale", "dpu_lut_lo_slope_shift",
)  # fmt: skip
_REST = (*_CNA_HEAD, *_CNA_MID, *_CORE, *_DPU)

MTX_ORDER = ("dpu_s_pointer", "cna_conv_con1", *_REST)
"""The 104-word order."""

RKNN_ORDER = (
    "cna_cbuf_con0", "cna_dcomp_regnum", "cna_dcomp_ctrl", "cna_conv_con1", "dpu_s_pointer", "cna_conv_con1", *_REST,
)  # fmt: skip
"""The 108-word order: early CBUF and DCOMP writes free the task from what ran before it."""

BODY_WORDS = len(RKNN_ORDER)

_CONSTANTS = {
    "dpu_s_pointer": value_of("dpu_s_pointer", pointer_pp_en=1, executer_pp_en=1, pointer_pp_mode=1),
    "cna_conv_con3": value_of("cna_conv_con3", conv_y_stride=1, conv_x_stride=1),
    "cna_cvt_con0": value_of("cna_cvt_con0", data_sign=1, cvt_type=1, cvt_bypass=1),
    **{f"cna_cvt_con{i}": value_of(f"cna_cvt_con{i}", scale=1) for i in range(1, 5)},
    "cna_dma_con0": value_of("cna_dma_con0", weight_burst=15, data_burst=15),
    "dpu_feature_mode_cfg": value_of("dpu_feature_mode_cfg", burst_len=15, output_mode=2),
    "dpu_bs_cfg": value_of("dpu_bs_cfg", relu_bypass=1, mul_bypass=1, alu_bypass=1, bypass=1),
    "dpu_bn_cfg": value_of("dpu_bn_cfg", relu_bypass=1, mul_bypass=1, alu_bypass=1, bypass=1),
    "dpu_ew_cfg": value_of("dpu_ew_cfg", relu_bypass=1, op_cvt_bypass=1, lut_bypass=1, op_bypass=1, bypass=1),
    "dpu_ew_cvt_scale": 1,
}


def data_banks(soc: Soc, precision: MatmulPrecision, rows: int, k: int) -> int:
    """CBUF banks that ``rows`` of ``k`` elements fill, at least one."""
    return max(1, -(-rows * precision.row_bytes(k) // soc.cbuf_bank_bytes))


def _signed(value: int, bits: int) -> int:
    return value & ((1 << bits) - 1)


def _row_major(soc: Soc, p: MatmulPrecision, s: MatmulShape) -> dict[str, int]:
    row_bytes = p.row_bytes(s.k)
    pitch_atoms = p.row_bytes(s.a_pitch or s.k) // soc.atom_bytes
    row_atoms = s.n * p.output_bytes // soc.atom_bytes
    c_pitch = s.c_pitch or s.n
    c_atoms = c_pitch * p.output_bytes // soc.atom_bytes
    return {
        "cna_conv_con1": value_of(
            "cna_conv_con1", group_line_off=1, proc_precision=p.code, in_precision=p.code
        ),
        "cna_conv_con2": value_of("cna_conv_con2", feature_grains=s.rows + 1),
        "cna_data_size0": value_of("cna_data_size0", datain_width=1, datain_height=s.rows),
        "cna_data_size2": 1,
        "cna_fc_data_size0": value_of("cna_fc_data_size0", dma_width=1, dma_height=s.rows),
        "cna_cbuf_con1": -(-row_bytes // soc.cbuf_entry_bytes),
        "cna_dma_con1": value_of("cna_dma_con1", line_stride=pitch_atoms),
        "core_dataout_size_0": value_of("core_dataout_size_0", height_minus1=s.rows - 1),
        "dpu_dst_surf_stride": soc.atom_bytes,
        "dpu_data_cube_height": value_of("dpu_data_cube_height", height_minus1=s.rows - 1),
        "dpu_data_cube_notch": value_of("dpu_data_cube_notch", notch_1=c_atoms - 1, notch_0=row_atoms - 1),
        "dpu_data_cube_channel": value_of(
            "dpu_data_cube_channel", orig_channel_minus1=min(c_pitch, 8192) - 1, channel_minus1=s.n - 1
        ),
        "dpu_wdma_size_1": value_of("dpu_wdma_size_1", height_minus1=s.rows - 1),
        "dpu_surface_add": soc.atom_bytes * p.units,
    }


def _cube(soc: Soc, p: MatmulPrecision, s: MatmulShape) -> dict[str, int]:
    row_bytes = p.row_bytes(s.k)
    surface = 4 * (s.rows // 4 - 1)
    return {
        "cna_conv_con1": value_of("cna_conv_con1", proc_precision=p.code, in_precision=p.code),
        "cna_conv_con2": value_of("cna_conv_con2", feature_grains=(s.rows + 1) & 0x3FF),
        "cna_data_size0": value_of("cna_data_size0", datain_width=1, datain_height=s.rows),
        "cna_data_size2": 1,
        "cna_fc_data_size0": value_of("cna_fc_data_size0", dma_width=1, dma_height=s.rows),
        "cna_cbuf_con1": -(-row_bytes // soc.cbuf_entry_bytes),
        "cna_dma_con1": value_of("cna_dma_con1", line_stride=4),
        "cna_dma_con2": value_of("cna_dma_con2", surf_stride=_signed(surface + (surface < 0), 28)),
        "core_dataout_size_0": value_of("core_dataout_size_0", height_minus1=s.rows - 1),
        "dpu_dst_surf_stride": soc.atom_bytes * s.rows,
        "dpu_data_cube_height": value_of("dpu_data_cube_height", height_minus1=s.rows - 1),
        "dpu_data_cube_notch": 0,
        "dpu_data_cube_channel": value_of(
            "dpu_data_cube_channel", orig_channel_minus1=s.n - 1, channel_minus1=s.n - 1
        ),
        "dpu_wdma_size_1": value_of("dpu_wdma_size_1", height_minus1=s.rows - 1),
        "dpu_surface_add": soc.atom_bytes * p.units * s.rows,
    }


def _fold(soc: Soc, p: MatmulPrecision, s: MatmulShape) -> dict[str, int]:
    total = s.cube_rows or s.rows
    whole = total == s.rows
    entries = -(-p.row_bytes(s.k) // soc.cbuf_entry_bytes)
    return {
        "cna_conv_con1": value_of(
            "cna_conv_con1", group_line_off=0 if whole else 1, proc_precision=p.code, in_precision=p.code
        ),
        "cna_conv_con2": value_of("cna_conv_con2", feature_grains=2),
        "cna_data_size0": value_of("cna_data_size0", datain_width=s.rows, datain_height=1),
        "cna_data_size2": s.rows,
        "cna_fc_data_size0": value_of("cna_fc_data_size0", dma_width=s.rows, dma_height=1),
        "cna_cbuf_con1": value_of("cna_cbuf_con1", data_entries=s.rows * entries),
        "cna_dma_con1": value_of("cna_dma_con1", line_stride=4 * s.rows if whole else total),
        "cna_dma_con2": value_of(
            "cna_dma_con2", surf_stride=_signed(-3 * s.rows if whole else total - s.rows, 28)
        ),
        "core_dataout_size_0": value_of("core_dataout_size_0", width_minus1=s.rows - 1),
        "dpu_dst_surf_stride": soc.atom_bytes * total,
        "dpu_data_cube_width": value_of("dpu_data_cube_width", width_minus1=s.rows - 1),
        "dpu_data_cube_notch": 0,
        "dpu_data_cube_channel": value_of(
            "dpu_data_cube_channel", orig_channel_minus1=s.n - 1, channel_minus1=s.n - 1
        ),
        "dpu_wdma_size_1": value_of("dpu_wdma_size_1", width_minus1=s.rows - 1),
        "dpu_surface_add": soc.atom_bytes * p.units * total,
    }


def _int4_batch(soc: Soc, p: MatmulPrecision, s: MatmulShape) -> dict[str, int]:
    """Rows packed twice their size apart: lines come in fours, and only the first of each four is a row.

    With the write size left at one pixel every pixel of every kernel group gets a slot of its own.
    """
    lines = 4 * s.rows
    slot = soc.atom_bytes * p.units
    return {
        "cna_conv_con1": value_of("cna_conv_con1", proc_precision=p.code, in_precision=p.code),
        "cna_conv_con2": value_of("cna_conv_con2", feature_grains=lines + 1),
        "cna_data_size0": value_of("cna_data_size0", datain_width=1, datain_height=lines),
        "cna_data_size2": 1,
        "cna_data_size3": value_of("cna_data_size3", dataout_atomics=lines),
        "cna_fc_data_size0": value_of("cna_fc_data_size0", dma_width=1, dma_height=lines),
        "cna_cbuf_con1": -(-p.row_bytes(s.k) // soc.cbuf_entry_bytes),
        "cna_dma_con1": value_of("cna_dma_con1", line_stride=2 * p.row_bytes(s.k) // soc.atom_bytes),
        "cna_dma_con2": value_of("cna_dma_con2", surf_stride=_signed(-3, 28)),
        "core_dataout_size_0": value_of("core_dataout_size_0", height_minus1=lines - 1),
        "dpu_dst_surf_stride": soc.atom_bytes,
        "dpu_data_cube_height": value_of("dpu_data_cube_height", height_minus1=lines - 1),
        "dpu_data_cube_notch": 0,
        "dpu_data_cube_channel": value_of(
            "dpu_data_cube_channel", orig_channel_minus1=s.n - 1, channel_minus1=s.n - 1
        ),
        "dpu_wdma_size_1": 0,
        "dpu_surface_add": slot,
    }


GEOMETRIES: dict[str, Callable[[Soc, MatmulPrecision, MatmulShape], dict[str, int]]] = {
    "row_major": _row_major,
    "cube": _cube,
    "fold": _fold,
    "int4_batch": _int4_batch,
}
"""How A and C lie in memory: row-major both, column cubes with W=1, cubes with rows as width, or the batch
form of int4."""


def registers_for(
    soc: Soc,
    precision: MatmulPrecision,
    geometry: str,
    shape: MatmulShape,
    *,
    output_bypass: bool = False,
    convert: OutputConversion | None = None,
) -> dict[str, int]:
    """Every register of the program by name; those left out are zero.

    ``output_bypass`` sets OD_BYPASS, which the mtx form does and the RKNN form does not; no effect
    of the bit on a matmul is known. ``convert`` requantizes on the way out.

    Raises:
        ValueError: a value does not fit its field.
    """
    p, s = precision, shape
    row_bytes = p.row_bytes(s.k)
    banks = s.data_banks or data_banks(soc, p, s.rows, s.k)
    size_e = p.units - 1
    return {
        **_CONSTANTS,
        "cna_data_size1": value_of("cna_data_size1", channel_real_minus1=s.k - 1, channel=s.k),
        "cna_data_size3": value_of("cna_data_size3", dataout_atomics=s.rows),
        "cna_weight_size0": row_bytes * s.n,
        "cna_weight_size1": value_of("cna_weight_size1", bytes_per_kernel=row_bytes),
        "cna_weight_size2": value_of("cna_weight_size2", width=1, height=1, kernels=s.n),
        "cna_cbuf_con0": value_of(
            "cna_cbuf_con0",
            weight_reuse=int(s.reuse_weights),
            weight_bank=soc.cbuf_banks - banks,
            data_bank=banks,
        ),
        "cna_feature_data_addr": s.a,
        "cna_fc_data_size1": value_of("cna_fc_data_size1", dma_channel=s.k),
        "cna_dcomp_addr0": s.b,
        "core_misc_cfg": value_of(
            "core_misc_cfg",
            proc_precision=p.code,
            qd_en=0 if output_bypass and p.code is Precision.INT8 else 1,
        ),
        "core_dataout_size_1": value_of("core_dataout_size_1", channel_minus1=s.n - 1),
        "dpu_data_format": value_of(
            "dpu_data_format", out_precision=p.out, in_precision=p.dpu_in, proc_precision=p.proc
        ),
        "dpu_dst_base_addr": s.c,
        "dpu_bs_ow_cfg": value_of(
            "dpu_bs_ow_cfg",
            size_e_2=size_e,
            size_e_1=size_e,
            size_e_0=size_e,
            od_bypass=1 if output_bypass else 0,
        ),
        "dpu_wdma_size_0": value_of("dpu_wdma_size_0", channel_minus1=s.n - 1),
        "dpu_out_cvt_scale": p.out_scale,
        **_conversion(convert),
        **GEOMETRIES[geometry](soc, p, s),
    }


def _conversion(convert: OutputConversion | None) -> dict[str, int]:
    if convert is None:
        return {}
    return {
        "dpu_out_cvt_offset": _signed(convert.offset, 32),
        "dpu_out_cvt_scale": value_of("dpu_out_cvt_scale", scale=convert.scale),
        "dpu_out_cvt_shift": value_of("dpu_out_cvt_shift", shift=convert.shift),
    }


def matmul_body(
    soc: Soc,
    precision: MatmulPrecision,
    geometry: str,
    shape: MatmulShape,
    convert: OutputConversion | None = None,
) -> np.ndarray:
    """The 108-word body of one matmul program; uint64 [108]."""
    body = _body_without_addresses(soc, precision, geometry, replace(shape, a=0, b=0, c=0), convert).copy()
    for position, address in zip(_ADDRESS_POSITIONS, (shape.a, shape.b, shape.c), strict=True):
        if not 0 <= address < 1 << 32 or address % soc.atom_bytes:
            raise ValueError(f"address {address:#x}: allowed are multiples of {soc.atom_bytes} below 2**32")
        body[position] |= np.uint64(address << 16)
    return body


_ADDRESS_POSITIONS = tuple(
    RKNN_ORDER.index(name) for name in ("cna_feature_data_addr", "cna_dcomp_addr0", "dpu_dst_base_addr")
)


@lru_cache(maxsize=4096)
def _body_without_addresses(
    soc: Soc,
    precision: MatmulPrecision,
    geometry: str,
    shape: MatmulShape,
    convert: OutputConversion | None,
) -> np.ndarray:
    """Layers of a model repeat a few shapes at many addresses, so the rest of a body is made once."""
    values = registers_for(soc, precision, geometry, shape, convert=convert)
    unknown = values.keys() - REGISTERS.keys()
    if unknown:
        raise ValueError(f"unknown registers {sorted(unknown)}")
    return encode_all((name, values.get(name, 0)) for name in RKNN_ORDER)
