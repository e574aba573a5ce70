"""BS and BN: add, multiply with a rounded shift, clamp. Whole arrays [pixels][channels] at a time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from orkbench_tui.sim.chip.dpu_operation import Stage, signed
from orkbench_tui.sim.chip.elements import Numbers
from orkbench_tui.sim.chip.integer_arithmetic import multiply_shift

__all__ = ["ChannelValues", "apply_stage", "clamp_positive", "fp16_bits", "fp32_bits"]


@dataclass(frozen=True, slots=True)
class ChannelValues:
    """A stage's operands from memory for the channels at hand, [channels]; None where it reads none."""

    alu: NDArray[np.int64] | None = None
    factor: Numbers | None = None


def fp32_bits(value: int) -> np.float32:
    return np.uint32(value & 0xFFFF_FFFF).view(np.float32)


def fp16_bits(value: int) -> np.float32:
    return np.float32(np.uint16(value & 0xFFFF).view(np.float16))


def clamp_positive(values: Numbers, ceiling: int | None) -> Numbers:
    """ReLU, or ReLUx with a ceiling given as register bits; NaN goes through."""
    result = np.maximum(values, values.dtype.type(0))
    if ceiling is None:
        return result
    limit = fp32_bits(ceiling) if values.dtype.kind == "f" else np.int64(signed(ceiling, 32))
    return np.minimum(result, limit)


def apply_stage(stage: Stage, values: Numbers, operands: ChannelValues) -> Numbers:
    """BS or BN on int64 or float32 values, same shape and type."""
    compute = _floats if values.dtype.kind == "f" else _integers
    with np.errstate(all="ignore"):
        result = compute(stage, values, operands)
    return clamp_positive(result, stage.ceiling) if stage.relu else result


def _integers(stage: Stage, x: Numbers, operands: ChannelValues) -> Numbers:
    addend: int | NDArray[np.int64] = 0
    if stage.alu_sign:
        addend = operands.alu if stage.alu is None else signed(stage.alu, 32)  # type: ignore[assignment]
        addend = stage.alu_sign * addend
    if not stage.mul:
        return multiply_shift(x, 1, before=addend)
    factor = operands.factor if stage.factor is None else signed(stage.factor, 16)
    shifts = {"shift": stage.shift, "shift_negative": stage.shift_negative}
    if stage.multiply_first:
        product = multiply_shift(x, factor, after=addend, **shifts)  # type: ignore[arg-type]
        return np.where(x < 0, product, x) if stage.prelu else product
    if stage.prelu:
        x = multiply_shift(x, 1, before=addend)
        return np.where(x < 0, multiply_shift(x, factor, **shifts), x)  # type: ignore[arg-type]
    return multiply_shift(x, factor, before=addend, **shifts)  # type: ignore[arg-type]


def _floats(stage: Stage, x: Numbers, operands: ChannelValues) -> Numbers:
    addend = (
        np.float32(stage.alu_sign) * fp32_bits(stage.alu)
        if stage.alu_sign and stage.alu is not None
        else None
    )
    factor: Numbers | np.float32 | None = None
    if stage.mul:
        factor = operands.factor if stage.factor is None else fp16_bits(stage.factor)
    if addend is not None and not stage.multiply_first:
        x = x + addend
    if factor is not None:
        product = (x * factor).astype(np.float32)
        x = np.where(x < 0, product, x) if stage.prelu else product
    if addend is not None and stage.multiply_first:
        x = x + addend
    return x
