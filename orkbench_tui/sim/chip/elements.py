"""Bytes to numbers and back, one function each way.

Integers are int64 and floating numbers float32 while they are inside the chip.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from orkbench_tui.driver.regcmd.registers import Precision
from orkbench_tui.sim.chip.address_space import Bytes
from orkbench_tui.sim.chip.precisions import ELEMENTS

__all__ = ["Numbers", "decode_elements", "encode_elements"]

Numbers = NDArray[Any]
"""int64 or float32 while values are in the output stage, any numpy number type on the way in."""

_PLAIN = {
    Precision.INT8: "<i1",
    Precision.INT16: "<i2",
    Precision.INT32: "<i4",
    Precision.FP16: "<f2",
    Precision.FP32: "<f4",
}
_TF32_MASK = np.uint32(0xFFFF_E000)


def decode_elements(raw: Bytes, precision: Precision) -> Numbers:
    """uint8 [..., bytes] (contiguous) as [..., elements], in the smallest type that holds them."""
    if precision is Precision.INT4:
        low, high = (raw << 4).view(np.int8) >> 4, raw.view(np.int8) >> 4
        return np.stack([low, high], axis=-1).reshape(*raw.shape[:-1], -1)
    if precision is Precision.BF16:
        return (raw.view("<u2").astype(np.uint32) << 16).view(np.float32)
    if precision is Precision.TF32:
        whole = raw.view("<u4")
        cut = (whole & _TF32_MASK).view(np.float32)
        # A NaN whose payload is in the dropped bits stays a NaN.
        return np.where(np.isnan(whole.view(np.float32)), np.float32(np.nan), cut)
    return raw.view(_PLAIN[precision])


def encode_elements(values: Numbers, precision: Precision) -> Bytes:
    """[..., elements] as uint8 [..., bytes]; integers saturate, floats round to nearest even."""
    kind = ELEMENTS[precision]
    if not kind.floating:
        limits = np.iinfo(np.dtype(_PLAIN[precision]))
        narrow: Numbers = np.clip(values, limits.min, limits.max).astype(_PLAIN[precision])
        return np.ascontiguousarray(narrow).view(np.uint8)
    # Integers go through float64, where they are exact, so that they are rounded once.
    wide = values.astype(np.float64) if values.dtype.kind == "i" else values
    with np.errstate(all="ignore"):
        if precision is Precision.BF16:
            return _to_bf16(wide.astype(np.float32))
        return np.ascontiguousarray(wide.astype(_PLAIN[precision])).view(np.uint8)


def _to_bf16(values: NDArray[np.float32]) -> Bytes:
    bits = np.ascontiguousarray(values).view(np.uint32)
    rounded = (bits + (np.uint32(0x7FFF) + ((bits >> 16) & 1))) >> 16
    quiet = np.where(np.isnan(values), (bits >> 16) | 0x40, rounded)
    return np.ascontiguousarray(quiet.astype("<u2")).view(np.uint8)
