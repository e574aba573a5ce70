"""Number formats of the chip, and which of them go together, as tables.

A combination that is not in a table is one nobody has published a working program for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from orkbench_tui.driver.regcmd.registers import Precision

__all__ = ["ELEMENTS", "MATMUL_INPUTS", "SDP_COMBINATIONS", "SDP_MAX_ROWS", "ElementType", "MatmulInput"]


@dataclass(frozen=True, slots=True)
class ElementType:
    """How one number lies in memory."""

    bits: int
    floating: bool

    @property
    def bytes(self) -> int:
        """Bytes of one element; 0 for int4, which is only ever an input."""
        return self.bits // 8

    @property
    def per_atom(self) -> int:
        """Elements of one 16-byte atom."""
        return 128 // self.bits


ELEMENTS: Mapping[Precision, ElementType] = MappingProxyType(
    {
        Precision.INT4: ElementType(4, floating=False),
        Precision.INT8: ElementType(8, floating=False),
        Precision.INT16: ElementType(16, floating=False),
        Precision.INT32: ElementType(32, floating=False),
        Precision.FP16: ElementType(16, floating=True),
        Precision.BF16: ElementType(16, floating=True),
        Precision.TF32: ElementType(32, floating=True),
        Precision.FP32: ElementType(32, floating=True),
    }
)


@dataclass(frozen=True, slots=True)
class MatmulInput:
    """An input precision of the MAC array.

    ``kernel_group`` output channels are computed together (KG), ``k_granule`` is what K is a multiple
    of (KC), ``dpu`` is the code the output stage is given, ``outputs`` what it can write.
    """

    kernel_group: int
    k_granule: int
    dpu: Precision
    outputs: tuple[Precision, ...]


MATMUL_INPUTS: Mapping[Precision, MatmulInput] = MappingProxyType(
    {
        Precision.INT8: MatmulInput(
            32, 32, Precision.INT8,
            (Precision.INT32, Precision.INT16, Precision.INT8, Precision.FP32, Precision.FP16),
        ),
        Precision.INT16: MatmulInput(16, 32, Precision.INT16, (Precision.INT32,)),
        Precision.FP16: MatmulInput(16, 32, Precision.FP16, (Precision.FP32, Precision.FP16)),
        Precision.BF16: MatmulInput(16, 32, Precision.BF16, (Precision.FP32, Precision.BF16)),
        # The DPU has no tf32 code: it is handed such sums as fp32.
        Precision.TF32: MatmulInput(16, 16, Precision.FP32, (Precision.FP32,)),
        Precision.INT4: MatmulInput(64, 32, Precision.INT4, (Precision.INT16,)),
    }
)  # fmt: skip

SDP_COMBINATIONS: frozenset[tuple[Precision, Precision, Precision]] = frozenset(
    {
        (Precision.INT8, Precision.INT8, Precision.INT8),
        (Precision.INT16, Precision.INT16, Precision.INT16),
        (Precision.INT32, Precision.INT32, Precision.INT32),
        (Precision.INT32, Precision.INT32, Precision.FP32),
        (Precision.FP16, Precision.FP16, Precision.FP16),
        (Precision.FP32, Precision.FP32, Precision.FP32),
    }
)
"""Input, processing and output precision of stand-alone element-wise programs."""

SDP_MAX_ROWS: Mapping[Precision, int] = MappingProxyType(
    {Precision.INT8: 8176, Precision.INT16: 8176, Precision.FP16: 8188}
)
"""Widest cube a stand-alone program finishes, measured; the other precisions have no known ceiling
below their register field."""
