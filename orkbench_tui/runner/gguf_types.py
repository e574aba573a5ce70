"""The numbers of the GGUF format: value types, tensor types and what a block of each costs."""

from __future__ import annotations

from enum import IntEnum

__all__ = [
    "BLOCKS",
    "REMOVED_TYPES",
    "SCALAR_FORMATS",
    "UNSUPPORTED_TYPES",
    "GgmlType",
    "ValueType",
    "tensor_bytes",
]


class ValueType(IntEnum):
    """Types of metadata values; weight packs use the same numbers."""

    U8 = 0
    I8 = 1
    U16 = 2
    I16 = 3
    U32 = 4
    I32 = 5
    F32 = 6
    BOOL = 7
    STRING = 8
    ARRAY = 9
    U64 = 10
    I64 = 11
    F64 = 12


# struct format character, which is also the numpy type code of the little-endian array.
SCALAR_FORMATS: dict[ValueType, str] = {
    ValueType.U8: "B",
    ValueType.I8: "b",
    ValueType.U16: "H",
    ValueType.I16: "h",
    ValueType.U32: "I",
    ValueType.I32: "i",
    ValueType.F32: "f",
    ValueType.BOOL: "B",
    ValueType.U64: "Q",
    ValueType.I64: "q",
    ValueType.F64: "d",
}


class GgmlType(IntEnum):
    """Storage types of tensors."""

    F32 = 0
    F16 = 1
    Q4_0 = 2
    Q4_1 = 3
    Q5_0 = 6
    Q5_1 = 7
    Q8_0 = 8
    Q8_1 = 9
    Q2_K = 10
    Q3_K = 11
    Q4_K = 12
    Q5_K = 13
    Q6_K = 14
    Q8_K = 15
    IQ2_XXS = 16
    IQ2_XS = 17
    IQ3_XXS = 18
    IQ1_S = 19
    IQ4_NL = 20
    IQ3_S = 21
    IQ2_S = 22
    IQ4_XS = 23
    I8 = 24
    I16 = 25
    I32 = 26
    I64 = 27
    F64 = 28
    IQ1_M = 29
    BF16 = 30
    TQ1_0 = 34
    TQ2_0 = 35
    MXFP4 = 39
    NVFP4 = 40
    Q1_0 = 41


# (elements, bytes) of one block.
BLOCKS: dict[GgmlType, tuple[int, int]] = {
    GgmlType.F32: (1, 4),
    GgmlType.F16: (1, 2),
    GgmlType.Q4_0: (32, 18),
    GgmlType.Q4_1: (32, 20),
    GgmlType.Q5_0: (32, 22),
    GgmlType.Q5_1: (32, 24),
    GgmlType.Q8_0: (32, 34),
    GgmlType.Q8_1: (32, 40),
    GgmlType.Q2_K: (256, 84),
    GgmlType.Q3_K: (256, 110),
    GgmlType.Q4_K: (256, 144),
    GgmlType.Q5_K: (256, 176),
    GgmlType.Q6_K: (256, 210),
    GgmlType.Q8_K: (256, 292),
    GgmlType.IQ2_XXS: (256, 66),
    GgmlType.IQ2_XS: (256, 74),
    GgmlType.IQ3_XXS: (256, 98),
    GgmlType.IQ1_S: (256, 50),
    GgmlType.IQ4_NL: (32, 18),
    GgmlType.IQ3_S: (256, 110),
    GgmlType.IQ2_S: (256, 82),
    GgmlType.IQ4_XS: (256, 136),
    GgmlType.I8: (1, 1),
    GgmlType.I16: (1, 2),
    GgmlType.I32: (1, 4),
    GgmlType.I64: (1, 8),
    GgmlType.F64: (1, 8),
    GgmlType.IQ1_M: (256, 56),
    GgmlType.BF16: (1, 2),
    GgmlType.TQ1_0: (256, 54),
    GgmlType.TQ2_0: (256, 66),
    GgmlType.MXFP4: (32, 17),
    GgmlType.NVFP4: (64, 36),
    GgmlType.Q1_0: (128, 18),
}

REMOVED_TYPES: dict[int, str] = {
    4: "Q4_2",
    5: "Q4_3",
    31: "Q4_0_4_4",
    32: "Q4_0_4_8",
    33: "Q4_0_8_8",
    36: "IQ4_NL_4_4",
    37: "IQ4_NL_4_8",
    38: "IQ4_NL_8_8",
}

# Stored types whose values this program cannot turn into float32.
UNSUPPORTED_TYPES = frozenset({GgmlType.Q8_1, GgmlType.Q8_K, GgmlType.Q1_0})


def tensor_bytes(type_: GgmlType, shape: tuple[int, ...]) -> int:
    """Bytes of a tensor of ``shape``, fastest dimension first; ValueError where a row is not whole blocks."""
    elements, size = BLOCKS[type_]
    if shape[0] % elements:
        raise ValueError(f"row length {shape[0]} is not a multiple of {elements}, the block of {type_.name}")
    count = 1
    for dim in shape:
        count *= dim
    return count // elements * size
