"""EW: one arithmetic operation between the data and an operand per element, or on the data alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orkbench_tui.sim.chip.dpu_operation import Alu, ElementConversion, ElementWise
from orkbench_tui.sim.chip.dpu_stages import clamp_positive
from orkbench_tui.sim.chip.elements import Numbers
from orkbench_tui.sim.chip.integer_arithmetic import Rounding, multiply_shift

__all__ = ["apply_element_wise", "convert_operand"]


def _product(x: Numbers, e: Numbers) -> Numbers:
    return x * e if x.dtype.kind == "f" else multiply_shift(x, e)


_BINARY: Mapping[Alu, Callable[[Any, Any], Any]] = {
    Alu.MAX: np.maximum,
    Alu.MIN: np.minimum,
    Alu.ADD: np.add,
    Alu.MINUS: np.subtract,
    Alu.DIV: np.divide,
    Alu.MUL: _product,
}
_UNARY: Mapping[Alu, Callable[[Any], Any]] = {
    Alu.ABS: np.abs,
    Alu.NEG: np.negative,
    Alu.FLOOR: np.floor,
    Alu.CEIL: np.ceil,
}


def convert_operand(operand: NDArray[np.int64], conversion: ElementConversion) -> NDArray[np.int64]:
    """The operand converter on integers."""
    if conversion.identity:
        return operand
    rounding = Rounding.HALF_AWAY if conversion.half_away else Rounding.HALF_EVEN
    before, after = (conversion.offset, 0) if conversion.add_first else (0, conversion.offset)
    shifted = multiply_shift(
        operand, conversion.scale, before=before, shift=conversion.shift, rounding=rounding
    )
    return shifted + after


def apply_element_wise(ew: ElementWise, values: Numbers, operand: Numbers | None) -> Numbers:
    """EW without its table on int64 or float32 values; ``operand`` has the same type and broadcasts.

    A floating operand is used as it is, whatever ``ew.conversion`` says: the rules let only the identity through.
    """
    x = values
    with np.errstate(all="ignore"):
        if ew.operation is not None and ew.operation in _UNARY:
            x = _UNARY[ew.operation](x)
        elif ew.operation is not None and operand is not None:
            if ew.conversion is not None and x.dtype.kind != "f":
                operand = convert_operand(operand, ew.conversion)
            result = _BINARY[ew.operation](x, operand)
            x = np.where(x < 0, result, x) if ew.prelu and ew.operation is Alu.MUL else result
    return clamp_positive(x, ew.ceiling) if ew.relu else x
