"""What is known about operations, as rows: number formats, published programs, ceilings.

Sources: docs/regcmd.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from orkbench_tui.driver.regcmd.registers import Precision

__all__ = [
    "ALU_NAMES",
    "INPUT_FORMATS",
    "MATMUL_PAIRS",
    "OUTPUT_BYTES",
    "POOL_METHODS",
    "SDP_MAX_ROWS",
    "SDP_PROGRAMS",
    "SHIFT_NEG_MASK",
    "InputFormat",
    "SdpProgram",
]


@dataclass(frozen=True, slots=True)
class InputFormat:
    """How the convolution takes one number type: bits of an element, output channels computed
    together (KG), what K must be a multiple of (KC), and the code the output stage sees."""

    bits: int
    kernel_group: int
    k_granule: int
    pipeline: Precision


INPUT_FORMATS: Mapping[Precision, InputFormat] = MappingProxyType(
    {
        Precision.INT8: InputFormat(8, 32, 32, Precision.INT8),
        Precision.INT16: InputFormat(16, 16, 32, Precision.INT16),
        Precision.FP16: InputFormat(16, 16, 32, Precision.FP16),
        Precision.BF16: InputFormat(16, 16, 32, Precision.BF16),
        Precision.INT4: InputFormat(4, 64, 32, Precision.INT4),
        Precision.TF32: InputFormat(32, 16, 16, Precision.FP32),
    }
)

OUTPUT_BYTES: Mapping[Precision, int] = MappingProxyType(
    {
        Precision.INT8: 1,
        Precision.INT16: 2,
        Precision.FP16: 2,
        Precision.BF16: 2,
        Precision.INT32: 4,
        Precision.FP32: 4,
    }
)

MATMUL_PAIRS = frozenset(
    {
        "int8->int32", "int8->fp32", "int8->int16", "int8->fp16", "int8->int8", "fp16->fp32", "fp16->fp16",
        "bf16->fp32", "bf16->bf16", "tf32->fp32", "int16->int32", "int4->int16",
    }
)  # fmt: skip
"""Input and output types that at least one source has run as a matmul."""

ALU_NAMES: Mapping[int, str] = MappingProxyType(
    {0: "max", 1: "min", 2: "add", 3: "div", 4: "sub", 5: "abs", 6: "neg", 7: "floor", 8: "ceil"}
)

POOL_METHODS: Mapping[int, str] = MappingProxyType({0: "avg", 1: "max", 2: "min"})

SDP_MAX_ROWS: Mapping[Precision, int] = MappingProxyType(
    {Precision.INT8: 8176, Precision.INT16: 8176, Precision.FP16: 8188}
)
"""Rows of one element-wise program; more is silently wrong or ends in a timeout."""

SHIFT_NEG_MASK = 0x0000_FFF0
"""Bits of DATA_FORMAT that repeat the BS and BN shifts for negative results."""


@dataclass(frozen=True, slots=True)
class SdpProgram:
    """A published element-wise program by the registers that make it what it is.

    ``data_format`` is compared without the negative-shift bits.
    """

    name: str
    data_format: int
    bs: int
    bn: int
    ew: int
    erdma: int
    feature_mode: int


SDP_PROGRAMS = (
    SdpProgram("int8 mul", 0x00000000, 0x20050, 0x53, 0x904002C4, 0x40000004, 0x7801),
    SdpProgram("int8 add", 0x00000000, 0x20040, 0x53, 0x904202C0, 0x40000004, 0x7801),
    SdpProgram("int16 mul", 0x24000001, 0x20050, 0x53, 0x908002C4, 0x40000008, 0xF821),
    SdpProgram("int16 add", 0x24000001, 0x20040, 0x53, 0x908202C0, 0x40000008, 0xF821),
    SdpProgram("fp16 mul", 0x48000002, 0x53, 0x53, 0x108003C4, 0x40000008, 0x17849),
    SdpProgram("fp16 add", 0x48000002, 0x53, 0x53, 0x108202C0, 0x40000008, 0x17849),
    SdpProgram("int32 add", 0x90000004, 0x53, 0x53, 0x10C203C0, 0x4000000C, 0x27881),
    SdpProgram("int32 add to fp32", 0xB0000004, 0x53, 0x53, 0x10C203C0, 0x4000000C, 0x27881),
    SdpProgram("fp32 scalar times vector", 0xB4000005, 0x42, 0x53, 0x10C003C4, 0x4000000C, 0x2F8A1),
    SdpProgram("int8 copy", 0x00000000, 0x53, 0x53, 0x383, 0x1, 0x7801),
    SdpProgram("int8 relu", 0x00000000, 0x12, 0x53, 0x383, 0x1, 0x7801),
    SdpProgram("int16 relu", 0x24000001, 0x12, 0x53, 0x383, 0x1, 0xF821),
    SdpProgram("fp16 relu", 0x48000002, 0x12, 0x53, 0x383, 0x1, 0x17849),
    SdpProgram("int8 table", 0x00000000, 0x53, 0x20040, 0x302, 0x1, 0x7801),
    SdpProgram("int16 table", 0x24000001, 0x53, 0x20040, 0x302, 0x1, 0xF821),
    SdpProgram("fp16 table", 0x48000002, 0x53, 0x20040, 0x300, 0x1, 0x17849),
)
