"""What a matmul flavour means to the host: number types, layouts, and how large a program may be.

A format ties a register-level precision to the rules around it. The row caps of int8, fp16 and int4
were measured apart and stay apart: none of the three functions may be used for another precision.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from orkbench_tui.driver import layouts
from orkbench_tui.driver.matmul.splitting import feature_banks, max_rows
from orkbench_tui.driver.regcmd.programs import (
    FP16_TO_FP16,
    FP16_TO_FP32,
    INT4_TO_INT16,
    INT8_TO_INT8,
    INT8_TO_INT16,
    INT8_TO_INT32,
    INT16_TO_INT32,
    MatmulPrecision,
    data_banks,
)
from orkbench_tui.driver.soc import RK3588, Soc

__all__ = [
    "FORMATS",
    "FP16",
    "FP16_NARROW",
    "INT4",
    "INT8",
    "INT8_REQUANT8",
    "INT8_REQUANT16",
    "INT16",
    "MatmulFormat",
    "measured_int8_rows",
]


@dataclass(frozen=True, slots=True)
class MatmulFormat:
    """One flavour of matmul.

    ``operand`` is the numpy type of A and of the weights as the caller holds them (int4 codes are
    int8 values -8..7), ``memory`` the type they have in NPU memory, ``result`` the type a program
    writes, ``total`` the type results have for the caller. ``rows_cap(soc, k, n)`` bounds the rows of
    one program, ``k_limit`` its K. ``sums`` says whether partial results of K slices may be added.
    """

    name: str
    precision: MatmulPrecision
    geometry: str
    operand: type[np.generic]
    memory: type[np.generic]
    result: type[np.generic]
    total: type[np.generic]
    k_limit: int
    n_limit: int
    rows_cap: Callable[[Soc, int, int], int]
    banks: Callable[[Soc, int, int], int]
    sums: bool = True
    low: int | None = None
    high: int | None = None

    @property
    def packs_nibbles(self) -> bool:
        return self.precision.input_bits == 4

    def memory_bytes(self, elements: int) -> int:
        """Bytes of ``elements`` input elements in NPU memory."""
        return elements * self.precision.input_bits // 8

    def tile(self, weights: np.ndarray) -> np.ndarray:
        """Row-major weights [N, K] as the bytes of their tiles."""
        tiles = layouts.tile_weights(self.precision, weights)
        return layouts.pack_nibbles(tiles) if self.packs_nibbles else tiles.view(np.uint8)


_INT8_ROW_GROUP = 64
_INT8_LONGEST_SCHEDULED = 4096
_INT8_LONG = ((6144, 32), (8192, 16))


def measured_int8_rows(k: int) -> int:
    """Rows of int8 features that boards computed right at this K: whole groups of 64, and no row more.

    The published schedule gives up 15 steps of its bank value for each group at K = 512 and proportionally
    more at a longer K, down to one bank of weights. Above K = 4096 other programs ran on a board.
    """
    if k > _INT8_LONGEST_SCHEDULED:
        return next((rows for longest, rows in _INT8_LONG if k <= longest), 1)
    base, step = int(177 - 15 * (k / 512 - 1)), max(1, int(15 * k / 512))
    return _INT8_ROW_GROUP * (1 + (base - 27) // step)


def _int8_rows(soc: Soc, k: int, n: int) -> int:
    """What the banks hold, and no more than was measured: the two differ, and nobody knows why."""
    return min(max_rows(soc, INT8_TO_INT32, k), measured_int8_rows(k))


def _int8_banks(soc: Soc, rows: int, k: int) -> int:
    return feature_banks(soc, INT8_TO_INT32, rows, k)


_FP16_SCHEDULED = 180224
_FP16_PLAIN = 16384
_FP16_NARROW = {256: 640, 512: 320, 1024: 128}
_NARROW_N = 32


def _fp16_rows(soc: Soc, k: int, n: int) -> int:
    """Measured on a board: eleven banks for K a power of two from 256 below 2048, one bank otherwise.

    K = 128 computes wrongly above 256 rows, and narrow weights need a second weight bank: more rows
    at K = 1024, N = 16 hung a board.
    """
    if k == 128:
        return 256
    scheduled = 128 <= k < 2048 and k & (k - 1) == 0
    rows = (_FP16_SCHEDULED if scheduled else _FP16_PLAIN) // k
    if n <= _NARROW_N and scheduled:
        rows = min(rows, _FP16_NARROW.get(k, rows))
    return max(1, min(rows, soc.max_rows_per_program))


def _fp16_banks(soc: Soc, rows: int, k: int) -> int:
    return data_banks(soc, FP16_TO_FP32, rows, k)


def _int16_rows(soc: Soc, k: int, n: int) -> int:
    """The fp16 geometry with integer codes; held to one bank, since nobody measured more."""
    return max(1, min(_FP16_PLAIN // k, soc.max_rows_per_program))


def _int16_banks(soc: Soc, rows: int, k: int) -> int:
    return data_banks(soc, INT16_TO_INT32, rows, k)


def _int4_rows(soc: Soc, k: int, n: int) -> int:
    return soc.max_rows_int4


def _int4_banks(soc: Soc, rows: int, k: int) -> int:
    return data_banks(soc, INT4_TO_INT16, rows, k)


def _int8_like(
    name: str, precision: MatmulPrecision, result: type[np.generic], *, sums: bool
) -> MatmulFormat:
    return MatmulFormat(
        name=name,
        precision=precision,
        geometry="row_major",
        operand=np.int8,
        memory=np.int8,
        result=result,
        total=result,
        k_limit=RK3588.max_k_int8,
        n_limit=RK3588.max_n_per_program,
        rows_cap=_int8_rows,
        banks=_int8_banks,
        sums=sums,
    )


INT8 = _int8_like("int8", INT8_TO_INT32, np.int32, sums=True)
INT8_REQUANT8 = _int8_like("int8->int8", INT8_TO_INT8, np.int8, sums=False)
INT8_REQUANT16 = _int8_like("int8->int16", INT8_TO_INT16, np.int16, sums=False)

FP16 = MatmulFormat(
    name="fp16",
    precision=FP16_TO_FP32,
    geometry="row_major",
    operand=np.float16,
    memory=np.float16,
    result=np.float32,
    total=np.float32,
    k_limit=RK3588.max_k_int8,
    n_limit=RK3588.max_n_per_program,
    rows_cap=_fp16_rows,
    banks=_fp16_banks,
)

FP16_NARROW = replace(
    FP16, name="fp16->fp16", precision=FP16_TO_FP16, result=np.float16, total=np.float16, sums=False
)
"""fp32 sums rounded once to fp16 on the way out; sums beyond 65504 become infinite."""

INT16 = MatmulFormat(
    name="int16",
    precision=INT16_TO_INT32,
    geometry="row_major",
    operand=np.int16,
    memory=np.int16,
    result=np.int32,
    total=np.int32,
    k_limit=RK3588.max_k_int8,
    n_limit=RK3588.max_n_per_program,
    rows_cap=_int16_rows,
    banks=_int16_banks,
    sums=False,
)
"""Sums beyond int32 saturate on the way out, as the chip does."""

INT4 = MatmulFormat(
    name="int4",
    precision=INT4_TO_INT16,
    geometry="fold",
    operand=np.int8,
    memory=np.uint8,
    result=np.int16,
    total=np.int32,
    # 480 x 8 x 8 still fits the 16-bit result, so no slice can saturate.
    k_limit=480,
    n_limit=RK3588.max_n_int4,
    rows_cap=_int4_rows,
    banks=_int4_banks,
    low=-8,
    high=7,
)

FORMATS: dict[str, MatmulFormat] = {
    f.name: f for f in (INT8, INT8_REQUANT8, INT8_REQUANT16, FP16, FP16_NARROW, INT16, INT4)
}
