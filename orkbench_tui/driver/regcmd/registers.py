"""NPU register addresses and fields: the one place that knows them.

A register is named as the public register database names it. ``Field(high, low)`` are bit numbers,
inclusive. Both the program builder and the simulated chip read this table, so a value that does not
fit a field is an error here and not a silent wrap somewhere else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from types import MappingProxyType

__all__ = ["BLOCK_OF_PAGE", "REGISTERS", "Block", "Field", "Register", "by_address", "fields_of", "value_of"]


class Block(IntEnum):
    """Target field of a register-program word (bits 63:48)."""

    NOP = 0x0000
    VERSION = 0x0041
    ENABLE = 0x0081
    PC = 0x0101
    CNA = 0x0201
    CORE = 0x0801
    DPU = 0x1001
    DPU_RDMA = 0x2001
    PPU = 0x4001
    PPU_RDMA = 0x8001


BLOCK_OF_PAGE = MappingProxyType(
    {
        0x0: Block.PC,
        0x1: Block.CNA,
        0x3: Block.CORE,
        0x4: Block.DPU,
        0x5: Block.DPU_RDMA,
        0x6: Block.PPU,
        0x7: Block.PPU_RDMA,
    }
)


@dataclass(frozen=True, slots=True)
class Field:
    """Bits ``high`` down to ``low`` of a 32-bit register."""

    high: int
    low: int

    @property
    def width(self) -> int:
        return self.high - self.low + 1

    @property
    def max(self) -> int:
        return (1 << self.width) - 1

    @property
    def mask(self) -> int:
        return self.max << self.low

    def get(self, value: int) -> int:
        return (value >> self.low) & self.max

    def signed(self, value: int) -> int:
        raw = self.get(value)
        return raw - (1 << self.width) if raw >> (self.width - 1) else raw

    def put(self, value: int) -> int:
        if not 0 <= value <= self.max:
            raise ValueError(f"{value} does not fit {self.width} bits")
        return value << self.low


@dataclass(frozen=True, slots=True)
class Register:
    """One register. ``fields`` empty means the whole word is one plain value."""

    name: str
    address: int
    fields: Mapping[str, Field]

    @property
    def block(self) -> Block:
        return BLOCK_OF_PAGE[self.address >> 12]

    @property
    def known_mask(self) -> int:
        mask = 0
        for field in self.fields.values():
            mask |= field.mask
        return mask or 0xFFFF_FFFF


def _fields(spec: str) -> Mapping[str, Field]:
    found = {}
    for item in spec.split():
        name, bits = item.split("=")
        high, _, low = bits.partition(":")
        found[name] = Field(int(high), int(low or high))
    return MappingProxyType(found)


_S_POINTER = "pointer=0 pointer_pp_en=1 executer_pp_en=2 pointer_pp_mode=3 pointer_pp_clear=4 executer_pp_clear=5 executer=16 core=31:28"
_STAGE = "alu_algo=19:16 alu_src=8 relux_en=7 relu_bypass=6 mul_prelu=5 mul_bypass=4 alu_bypass=1 bypass=0"
_MUL = "operand=31:16 shift=13:8 truncate_src=1 mul_src=0"
_SLOPE_SCALE = "overflow=31:16 underflow=15:0"
_SLOPE_SHIFT = "overflow=9:5 underflow=4:0"

# name, address, fields ("" = one plain 32-bit value)
_TABLE: tuple[tuple[str, int, str], ...] = (
    ("pc_version", 0x0000, ""),
    ("pc_version_num", 0x0004, ""),
    ("pc_operation_enable", 0x0008, ""),
    ("pc_base_address", 0x0010, "address=31:4 pc_sel=0"),
    ("pc_register_amounts", 0x0014, "amount=15:0"),
    ("pc_interrupt_mask", 0x0020, "mask=16:0"),
    ("pc_interrupt_clear", 0x0024, "mask=16:0"),
    ("pc_interrupt_status", 0x0028, "mask=16:0"),
    ("pc_interrupt_raw_status", 0x002C, "mask=16:0"),
    ("pc_task_con", 0x0030, "number=11:0 pp_en=12 count_clear=13 reserved_by_driver=14"),
    ("pc_task_dma_base_addr", 0x0034, "address=31:4"),
    ("pc_task_status", 0x003C, "status=27:0"),
    ("cna_s_pointer", 0x1004, _S_POINTER),
    (
        "cna_conv_con1",
        0x100C,
        "nonalign_dma=30 group_line_off=29 deconv=16 argb_in=15:12 proc_precision=9:7 in_precision=6:4 conv_mode=3:0",
    ),
    (
        "cna_conv_con2",
        0x1010,
        "kernel_group=23:16 feature_grains=13:4 csc_wo_en=2 csc_do_en=1 cmd_fifo_srst=0",
    ),
    (
        "cna_conv_con3",
        0x1014,
        "nn_mode=30:28 atrous_y=25:21 atrous_x=20:16 deconv_y=13:11 deconv_x=10:8 conv_y_stride=5:3 conv_x_stride=2:0",
    ),
    ("cna_data_size0", 0x1020, "datain_width=26:16 datain_height=10:0"),
    ("cna_data_size1", 0x1024, "channel_real_minus1=29:16 channel=15:0"),
    ("cna_data_size2", 0x1028, "dataout_width=10:0"),
    ("cna_data_size3", 0x102C, "surf_mode=23:22 dataout_atomics=21:0"),
    ("cna_weight_size0", 0x1030, ""),
    ("cna_weight_size1", 0x1034, "bytes_per_kernel=18:0"),
    ("cna_weight_size2", 0x1038, "width=28:24 height=20:16 kernels=13:0"),
    (
        "cna_cbuf_con0",
        0x1040,
        "weight_reuse=13 data_reuse=12 fc_data_bank=10:8 weight_bank=7:4 data_bank=3:0",
    ),
    ("cna_cbuf_con1", 0x1044, "data_entries=13:0"),
    (
        "cna_cvt_con0",
        0x104C,
        "truncate_3=27:22 truncate_2=21:16 truncate_1=15:10 truncate_0=9:4 data_sign=3 round_type=2 cvt_type=1 cvt_bypass=0",
    ),
    ("cna_cvt_con1", 0x1050, "scale=31:16 offset=15:0"),
    ("cna_cvt_con2", 0x1054, "scale=31:16 offset=15:0"),
    ("cna_cvt_con3", 0x1058, "scale=31:16 offset=15:0"),
    ("cna_cvt_con4", 0x105C, "scale=31:16 offset=15:0"),
    ("cna_fc_con0", 0x1060, ""),
    ("cna_fc_con1", 0x1064, ""),
    ("cna_pad_con0", 0x1068, "left=7:4 top=3:0"),
    ("cna_feature_data_addr", 0x1070, ""),
    ("cna_fc_con2", 0x1074, ""),
    ("cna_dma_con0", 0x1078, "ov4k_bypass=31 weight_burst=19:16 data_burst=3:0"),
    ("cna_dma_con1", 0x107C, "line_stride=27:0"),
    ("cna_dma_con2", 0x1080, "surf_stride=27:0"),
    ("cna_fc_data_size0", 0x1084, "dma_width=29:16 dma_height=10:0"),
    ("cna_fc_data_size1", 0x1088, "dma_channel=15:0"),
    ("cna_clk_gate", 0x1090, ""),
    ("cna_dcomp_ctrl", 0x1100, "wt_dec_bypass=3 decomp_control=2:0"),
    ("cna_dcomp_regnum", 0x1104, ""),
    ("cna_dcomp_addr0", 0x1110, ""),
    *((f"cna_dcomp_amount{i}", 0x1140 + 4 * i, "") for i in range(16)),
    ("cna_cvt_con5", 0x1180, ""),
    ("cna_pad_con1", 0x1184, ""),
    ("core_s_pointer", 0x3004, _S_POINTER),
    ("core_misc_cfg", 0x3010, "soft_gating=19:14 proc_precision=10:8 dw_en=1 qd_en=0"),
    ("core_dataout_size_0", 0x3014, "height_minus1=31:16 width_minus1=15:0"),
    ("core_dataout_size_1", 0x3018, "channel_minus1=15:0"),
    ("core_clip_truncate", 0x301C, "round_type=6 shift=4:0"),
    ("core_undocumented", 0x3030, ""),
    ("dpu_s_pointer", 0x4004, _S_POINTER),
    (
        "dpu_feature_mode_cfg",
        0x400C,
        "comb_use=31 tp_en=30 rgp_type=29:26 nonalign=25 surf_len=24:9 burst_len=8:5 conv_mode=4:3 output_mode=2:1 flying_mode=0",
    ),
    (
        "dpu_data_format",
        0x4010,
        "out_precision=31:29 in_precision=28:26 ew_truncate_neg=25:16 bn_mul_shift_neg=15:10 bs_mul_shift_neg=9:4 mc_surf_out=3 proc_precision=2:0",
    ),
    ("dpu_offset_pend", 0x4014, ""),
    ("dpu_dst_base_addr", 0x4020, ""),
    ("dpu_dst_surf_stride", 0x4024, "bytes_div16=31:4"),
    ("dpu_data_cube_width", 0x4030, "width_minus1=12:0"),
    ("dpu_data_cube_height", 0x4034, "minmax_ctl=24:22 height_minus1=12:0"),
    ("dpu_data_cube_notch", 0x4038, "notch_1=28:16 notch_0=12:0"),
    ("dpu_data_cube_channel", 0x403C, "orig_channel_minus1=28:16 channel_minus1=12:0"),
    ("dpu_bs_cfg", 0x4040, _STAGE),
    ("dpu_bs_alu_cfg", 0x4044, ""),
    ("dpu_bs_mul_cfg", 0x4048, _MUL),
    ("dpu_bs_relux_cmp", 0x404C, ""),
    (
        "dpu_bs_ow_cfg",
        0x4050,
        "rgp_cnter=31:28 tp_org_en=27 size_e_2=10:8 size_e_1=7:5 size_e_0=4:2 od_bypass=1 ow_src=0",
    ),
    ("dpu_bs_ow_op", 0x4054, ""),
    ("dpu_wdma_size_0", 0x4058, "tp_precision=27 size_c=26:16 channel_minus1=12:0"),
    ("dpu_wdma_size_1", 0x405C, "height_minus1=28:16 width_minus1=12:0"),
    ("dpu_bn_cfg", 0x4060, _STAGE),
    ("dpu_bn_alu_cfg", 0x4064, ""),
    ("dpu_bn_mul_cfg", 0x4068, _MUL),
    ("dpu_bn_relux_cmp", 0x406C, ""),
    (
        "dpu_ew_cfg",
        0x4070,
        "cvt_type=31 cvt_round=30 data_mode=29:28 edata_size=23:22 equal_en=21 binary_en=20 alu_algo=19:16 "
        "relux_en=10 relu_bypass=9 op_cvt_bypass=8 lut_bypass=7 op_src=6 mul_prelu=5 op_type=2 op_bypass=1 bypass=0",
    ),
    ("dpu_ew_cvt_offset", 0x4074, ""),
    ("dpu_ew_cvt_scale", 0x4078, "truncate=31:22 shift=21:16 scale=15:0"),
    ("dpu_ew_relux_cmp", 0x407C, ""),
    ("dpu_out_cvt_offset", 0x4080, ""),
    ("dpu_out_cvt_scale", 0x4084, "fp32tofp16_en=16 scale=15:0"),
    ("dpu_out_cvt_shift", 0x4088, "cvt_type=31 cvt_round=30 minus_exp=19:12 shift=11:0"),
    *((f"dpu_ew_op_value_{i}", 0x4090 + 4 * i, "") for i in range(8)),
    ("dpu_surface_add", 0x40C0, "bytes_div16=31:4"),
    ("dpu_undocumented", 0x40C4, ""),
    ("dpu_lut_access_cfg", 0x4100, "write=17 table=16 address=9:0"),
    ("dpu_lut_access_data", 0x4104, "entry=15:0"),
    (
        "dpu_lut_cfg",
        0x4108,
        "cal_sel=7 hybrid_priority=6 oflow_priority=5 uflow_priority=4 lo_le_mux=3:2 expand_en=1 road_sel=0",
    ),
    ("dpu_lut_info", 0x410C, "lo_index_select=23:16 le_index_select=15:8"),
    ("dpu_lut_le_start", 0x4110, ""),
    ("dpu_lut_le_end", 0x4114, ""),
    ("dpu_lut_lo_start", 0x4118, ""),
    ("dpu_lut_lo_end", 0x411C, ""),
    ("dpu_lut_le_slope_scale", 0x4120, _SLOPE_SCALE),
    ("dpu_lut_le_slope_shift", 0x4124, _SLOPE_SHIFT),
    ("dpu_lut_lo_slope_scale", 0x4128, _SLOPE_SCALE),
    ("dpu_lut_lo_slope_shift", 0x412C, _SLOPE_SHIFT),
    ("rdma_s_pointer", 0x5004, _S_POINTER),
    ("rdma_data_cube_width", 0x500C, "width_minus1=12:0"),
    ("rdma_data_cube_height", 0x5010, "ew_line_notch=28:16 height_minus1=12:0"),
    ("rdma_data_cube_channel", 0x5014, "channel_minus1=12:0"),
    ("rdma_src_base_addr", 0x5018, ""),
    ("rdma_brdma_cfg", 0x501C, "data_use=4:1"),
    ("rdma_bs_base_addr", 0x5020, ""),
    ("rdma_nrdma_cfg", 0x5028, "data_use=4:1"),
    ("rdma_bn_base_addr", 0x502C, ""),
    (
        "rdma_erdma_cfg",
        0x5034,
        "data_mode=31:30 surf_mode=29 nonalign=28 data_size=3:2 ov4k_bypass=1 disable=0",
    ),
    ("rdma_ew_base_addr", 0x5038, ""),
    ("rdma_ew_surf_stride", 0x5040, ""),
    (
        "rdma_feature_mode_cfg",
        0x5044,
        "in_precision=17:15 burst_len=14:11 comb_use=10:8 proc_precision=7:5 mrdma_disable=4 fp16tofp32_en=3 "
        "conv_mode=2:1 flying_mode=0",
    ),
    ("rdma_src_dma_cfg", 0x5048, "line_notch=31:19 pooling=18:0"),
    ("rdma_surf_notch", 0x504C, ""),
    ("rdma_pad_cfg", 0x5064, ""),
    ("rdma_weight", 0x5068, ""),
    ("rdma_ew_surf_notch", 0x506C, ""),
    ("ppu_s_pointer", 0x6004, _S_POINTER),
    ("ppu_data_cube_in_width", 0x600C, "width_minus1=12:0"),
    ("ppu_data_cube_in_height", 0x6010, "height_minus1=12:0"),
    ("ppu_data_cube_in_channel", 0x6014, "channel_minus1=12:0"),
    ("ppu_data_cube_out_width", 0x6018, "width_minus1=12:0"),
    ("ppu_data_cube_out_height", 0x601C, "height_minus1=12:0"),
    ("ppu_data_cube_out_channel", 0x6020, "channel_minus1=12:0"),
    ("ppu_operation_mode_cfg", 0x6024, "flying_mode=4 pooling_method=1:0"),
    (
        "ppu_pooling_kernel_cfg",
        0x6034,
        "stride_height_minus1=23:20 stride_width_minus1=19:16 height_minus1=11:8 width_minus1=3:0",
    ),
    ("ppu_recip_kernel_width", 0x6038, "reciprocal=16:0"),
    ("ppu_recip_kernel_height", 0x603C, "reciprocal=16:0"),
    ("ppu_pooling_padding_cfg", 0x6040, "bottom=14:12 right=10:8 top=6:4 left=2:0"),
    ("ppu_padding_value_1", 0x6044, ""),
    ("ppu_dst_base_addr", 0x6070, ""),
    ("ppu_dst_surf_stride", 0x607C, "bytes_div16=31:4"),
    ("ppu_data_format", 0x6084, "index_add_div16=31:4 proc_precision=2:0"),
    ("ppu_misc_ctrl", 0x60DC, ""),
    ("ppu_rdma_s_pointer", 0x7004, _S_POINTER),
    ("ppu_rdma_cube_in_width", 0x700C, "width_minus1=12:0"),
    ("ppu_rdma_cube_in_height", 0x7010, "height_minus1=12:0"),
    ("ppu_rdma_cube_in_channel", 0x7014, "channel_minus1=12:0"),
    ("ppu_rdma_src_base_addr", 0x701C, ""),
    ("ppu_rdma_src_line_stride", 0x7024, "bytes_div16=31:4"),
    ("ppu_rdma_src_surf_stride", 0x7028, "bytes_div16=31:4"),
    ("ppu_rdma_data_format", 0x7030, "in_precision=1:0"),
)

REGISTERS: Mapping[str, Register] = MappingProxyType(
    {name: Register(name, address, _fields(spec)) for name, address, spec in _TABLE}
)
_BY_ADDRESS = {register.address: register for register in REGISTERS.values()}


def by_address(address: int) -> Register | None:
    """The register at a core-relative offset, or None when nobody has documented one there."""
    return _BY_ADDRESS.get(address)


def value_of(name: str, **fields: int) -> int:
    """The 32-bit value of register ``name`` with the given fields, all others zero.

    Raises:
        ValueError: a field does not exist or its value does not fit.
    """
    register = REGISTERS[name]
    value = 0
    for field, number in fields.items():
        if field not in register.fields:
            raise ValueError(f"{name} has no field {field}")
        try:
            value |= register.fields[field].put(number)
        except ValueError as error:
            raise ValueError(f"{name}.{field}: {error}") from None
    return value


def fields_of(name: str, value: int) -> dict[str, int]:
    """The fields of a register value."""
    return {field: spec.get(value) for field, spec in REGISTERS[name].fields.items()}


class Precision(IntEnum):
    """Precision codes shared by CNA, CORE and DPU."""

    INT8 = 0
    INT16 = 1
    FP16 = 2
    BF16 = 3
    INT32 = 4
    FP32 = 5
    INT4 = 6
    TF32 = 7


class Enable(IntEnum):
    """Block masks of the enable word (target ENABLE, register 0x0008)."""

    MATMUL = 0x0D
    MATMUL_RDMA = 0x1D
    SDP = 0x18
    PPU = 0x60


ENABLE_REGISTER = 0x0008
NEXT_ADDRESS_REGISTER = 0x0010
NEXT_AMOUNT_REGISTER = 0x0014

INT_DPU = 0x300
INT_PPU = 0xC00
INT_CLEAR_ALL = 0x1FFFF
INT_DMA_READ_ERROR = 0x1000
INT_DMA_WRITE_ERROR = 0x2000
