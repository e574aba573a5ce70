"""Matmul programs with work in the output stage that needs the read engines or a table.

The body is the matmul's, then the read engine's registers; the program starts the read engines with the
convolution. Where no engine supplies main data its bit must say so, or the output stage waits for ever.

Sources: docs/fidelity.md, "register programs".
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from orkbench_tui.driver.failures import OperandError
from orkbench_tui.driver.regcmd.programs import (
    FP16_TO_FP16,
    INT8_TO_INT8,
    INT8_TO_INT32,
    RKNN_ORDER,
    MatmulPrecision,
    MatmulShape,
    OutputConversion,
    registers_for,
)
from orkbench_tui.driver.regcmd.registers import Enable, Precision, value_of
from orkbench_tui.driver.sdp.assembly import RunProgram
from orkbench_tui.driver.sdp.fixed_point import conversion_for
from orkbench_tui.driver.sdp.formats import FORMATS
from orkbench_tui.driver.sdp.lut import LutUse
from orkbench_tui.driver.sdp.lut_programs import ONE_GROUP, ew_table_word, lut_registers
from orkbench_tui.driver.sdp.programs import (
    PINGPONG,
    RDMA_ORDER,
    StageNumbers,
    body_of,
    ew_word,
    stage_registers,
)
from orkbench_tui.driver.sdp.table import ADD, MAX, MIN, MUL_PLAIN, Ew, Stage
from orkbench_tui.driver.soc import Soc

__all__ = [
    "FUSED_ORDER",
    "OPERAND_OPS",
    "REQUANT_SHIFT",
    "PerChannelRequant",
    "activated_program",
    "biased_program",
    "operand_program",
    "requantized_program",
]

FUSED_ORDER = (*RKNN_ORDER, *RDMA_ORDER)
REQUANT_SHIFT = 14
OPERAND_OPS: dict[str, Ew] = {"add": ADD, "mul": MUL_PLAIN, "max": MAX, "min": MIN}
"""What an fp16 matmul can do with a second operand on the way out."""

_ARBITER_WEIGHTS = 0x01010101
_BIAS, _BIAS_AND_FACTOR = 1, 7
_ALTERNATING_ENGINES = 5
_ATOM = 16
_PARAMETERS = np.dtype([("bias", "<i4", 4), ("minus_zero_point", "<i2", 4), ("factor", "<u2", 4)])


@dataclass(frozen=True, slots=True, eq=False)
class PerChannelRequant:
    """``sat8(round(round((acc + bias[n]) * factor[n] / 2**14) * scale / 2**shift) + offset)``.

    ``bias`` int32 [n], ``factors`` int [n] of 0 to 32767; ``convert`` is shared by all channels.
    """

    bias: np.ndarray
    factors: np.ndarray
    convert: OutputConversion

    def __post_init__(self) -> None:
        if self.bias.ndim != 1 or self.bias.shape != self.factors.shape or self.bias.dtype != np.int32:
            raise OperandError(
                "requantization per channel",
                why=f"bias is {self.bias.dtype} {self.bias.shape}, factors have shape {self.factors.shape}; "
                "expected int32 [n] and [n]",
            )
        if self.factors.min(initial=0) < 0 or self.factors.max(initial=0) > 0x7FFF:
            raise OperandError(
                "requantization per channel",
                why=f"factors {self.factors.min()} to {self.factors.max()}, allowed: 0 to {0x7FFF}",
            )

    @staticmethod
    def from_factors(bias: np.ndarray, factors: np.ndarray, zero_point: int = 0) -> PerChannelRequant:
        """For real factors per channel: the largest gets all 15 bits, the others the same exponent.

        Raises:
            OperandError: factors that are not positive numbers, or out of reach.
        """
        if factors.size == 0 or not np.isfinite(factors).all() or factors.min() <= 0:
            raise OperandError("requantization per channel", why="factors must be positive numbers")
        common = float(factors.max()) * (1 << REQUANT_SHIFT) / 0x7FFF
        codes = np.rint(factors / common * (1 << REQUANT_SHIFT)).astype(np.int64)
        return PerChannelRequant(bias, np.minimum(codes, 0x7FFF), conversion_for(common, zero_point))

    def block(self) -> np.ndarray:
        """The parameter block in memory, 32 bytes per four channels; uint8."""
        padding = -len(self.bias) % 4
        block = np.zeros((len(self.bias) + padding) // 4, dtype=_PARAMETERS)
        block["bias"] = np.pad(self.bias, (0, padding)).reshape(-1, 4)
        block["factor"] = np.pad(self.factors, (0, padding)).reshape(-1, 4)
        return block.view(np.uint8)

    @staticmethod
    def block_offset(channel: int) -> int:
        """Byte offset of a channel, a multiple of 4, in the block."""
        return channel // 4 * _PARAMETERS.itemsize


def _rdma(rows: int, channels: int, main: int, *, pointer: int = PINGPONG) -> dict[str, int]:
    return {
        "rdma_s_pointer": pointer,
        "rdma_data_cube_width": 0,
        "rdma_data_cube_height": value_of("rdma_data_cube_height", height_minus1=rows - 1),
        "rdma_data_cube_channel": value_of("rdma_data_cube_channel", channel_minus1=channels - 1),
        "rdma_erdma_cfg": value_of("rdma_erdma_cfg", disable=1),
        "rdma_feature_mode_cfg": main,
        "rdma_weight": _ARBITER_WEIGHTS,
    }


_NO_MAIN_DATA = value_of("rdma_feature_mode_cfg", burst_len=15, mrdma_disable=1)


def _matmul(
    soc: Soc, precision: MatmulPrecision, shape: MatmulShape, convert: OutputConversion | None
) -> dict[str, int]:
    return registers_for(soc, precision, "row_major", shape, convert=convert)


def _program(values: dict[str, int]) -> RunProgram:
    return RunProgram(body_of(values, FUSED_ORDER), len(FUSED_ORDER), int(Enable.MATMUL_RDMA))


def _shifts(precision: MatmulPrecision, bs: int = 0, bn: int = 0) -> int:
    return value_of(
        "dpu_data_format",
        out_precision=precision.out,
        in_precision=precision.dpu_in,
        proc_precision=precision.proc,
        bs_mul_shift_neg=bs,
        bn_mul_shift_neg=bn,
    )


def requantized_program(
    soc: Soc, shape: MatmulShape, requant: PerChannelRequant, parameters: int
) -> RunProgram:
    """int8 matmul to int8 with a bias and a multiplier per channel, read from ``parameters``."""
    precision = INT8_TO_INT8
    size = precision.units - 1
    values = _matmul(soc, precision, shape, requant.convert)
    values |= _rdma(shape.rows, shape.n, _NO_MAIN_DATA)
    values |= stage_registers(
        "bs",
        Stage.ADD_MUL.word | value_of("dpu_bs_cfg", alu_src=1),
        StageNumbers(shift=REQUANT_SHIFT),
        from_memory=True,
    )
    values |= {
        "dpu_data_format": _shifts(precision, bs=REQUANT_SHIFT),
        "dpu_bs_ow_cfg": value_of("dpu_bs_ow_cfg", size_e_2=size, size_e_1=size, size_e_0=size, ow_src=1),
        "rdma_brdma_cfg": value_of("rdma_brdma_cfg", data_use=_BIAS_AND_FACTOR),
        "rdma_bs_base_addr": parameters,
    }
    return _program(values)


def biased_program(soc: Soc, shape: MatmulShape, bias: int) -> RunProgram:
    """int8 matmul to int32 with a bias per channel, int32 [n] at ``bias``."""
    values = _matmul(soc, INT8_TO_INT32, shape, None)
    values |= _rdma(shape.rows, shape.n, _NO_MAIN_DATA)
    values |= {
        "dpu_bs_cfg": Stage.ADD.word | value_of("dpu_bs_cfg", alu_src=1),
        "rdma_brdma_cfg": value_of("rdma_brdma_cfg", data_use=_BIAS),
        "rdma_bs_base_addr": bias,
    }
    return _program(values)


def activated_program(soc: Soc, shape: MatmulShape, use: LutUse) -> RunProgram:
    """int8 matmul to int8 through the loaded function table."""
    values = _matmul(soc, INT8_TO_INT8, shape, use.convert)
    values |= _rdma(shape.rows, shape.n, _NO_MAIN_DATA, pointer=ONE_GROUP)
    values |= stage_registers("bn", Stage.ADD_MUL.word, use.bn)
    values |= lut_registers(use.lut)
    values |= {
        "dpu_s_pointer": ONE_GROUP,
        "dpu_data_format": _shifts(INT8_TO_INT8, bn=use.bn.shift),
        "dpu_ew_cfg": ew_table_word(FORMATS["int8"]),
    }
    return _program(values)


def operand_program(soc: Soc, shape: MatmulShape, op: str, operand: int) -> RunProgram:
    """fp16 matmul to fp16 with one of ``OPERAND_OPS`` against a cube [n/8][rows][8] at ``operand``.

    Sixteen channels come out at a time and an atom holds eight, so two engines take turns: the main one
    has the even atoms of a row, the element one the odd ones.
    """
    surface = _ATOM * shape.rows
    values = _matmul(soc, FP16_TO_FP16, shape, None)
    main = value_of(
        "rdma_feature_mode_cfg",
        in_precision=Precision.FP16,
        proc_precision=Precision.FP16,
        burst_len=15,
        comb_use=_ALTERNATING_ENGINES,
    )
    values |= _rdma(shape.rows, shape.n, main)
    values |= {
        "dpu_ew_cfg": ew_word(OPERAND_OPS[op], FORMATS["fp16"]),
        "dpu_ew_cvt_scale": 1,
        "rdma_erdma_cfg": value_of("rdma_erdma_cfg", data_mode=1, data_size=FORMATS["fp16"].size_code),
        "rdma_src_base_addr": operand,
        "rdma_ew_base_addr": operand + surface,
        "rdma_ew_surf_stride": surface,
        "rdma_surf_notch": surface,
        "rdma_ew_surf_notch": surface,
    }
    return _program(values)
