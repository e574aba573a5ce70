"""The output converter: scale, shift, offset on the way to memory."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from orkbench_tui.sim.chip.address_space import Bytes
from orkbench_tui.sim.chip.dpu_operation import Dpu, OutputConversion
from orkbench_tui.sim.chip.elements import Numbers, encode_elements
from orkbench_tui.sim.chip.integer_arithmetic import Rounding, multiply_shift, saturated
from orkbench_tui.sim.chip.precisions import ELEMENTS

__all__ = ["convert_floats", "convert_integers", "converted_bytes"]


def convert_integers(
    sums: NDArray[np.int64], conversion: OutputConversion, *, floor: bool = False
) -> NDArray[np.int64]:
    """The converter on exact integers, before saturation; ``floor`` for an output in floating point."""
    if conversion.identity:
        return sums
    rounding = Rounding.HALF_AWAY if conversion.half_away else Rounding.HALF_EVEN
    before, after = (conversion.offset, 0) if conversion.add_first else (0, conversion.offset)
    shifted = multiply_shift(
        sums,
        conversion.scale,
        before=before,
        shift=conversion.shift,
        rounding=Rounding.FLOOR if floor else rounding,
    )
    return saturated(shifted.astype(object) + after) if after and _near_end(shifted) else shifted + after


def _near_end(values: NDArray[np.int64]) -> bool:
    edge = 1 << 62
    return bool((values >= edge).any() or (values <= -edge).any())


def convert_floats(values: NDArray[np.float32], conversion: OutputConversion) -> NDArray[np.float32]:
    """``(x + offset) * 2**-minus_exponent * scale``; fp32 throughout."""
    if conversion.identity:
        return values
    factor = np.float32(conversion.scale * 2.0**-conversion.minus_exponent)
    with np.errstate(all="ignore"):
        return (values + np.float32(conversion.offset)) * factor


def converted_bytes(dpu: Dpu, values: Numbers) -> Bytes:
    """The last step of the output stage: [..., channels] to uint8 [..., bytes]."""
    if dpu.floating:
        return encode_elements(convert_floats(values, dpu.conversion), dpu.out)
    result = convert_integers(values, dpu.conversion, floor=ELEMENTS[dpu.out].floating)
    return encode_elements(result, dpu.out)
