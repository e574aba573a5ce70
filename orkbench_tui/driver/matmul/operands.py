"""Operands of a matmul: what arrays may hold, and whether the device may use them where they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from orkbench_tui.driver import guards
from orkbench_tui.driver.context import Context
from orkbench_tui.driver.dma_memory import DmaMemory
from orkbench_tui.driver.failures import OperandError
from orkbench_tui.driver.matmul.formats import MatmulFormat
from orkbench_tui.driver.matmul.placement import Placement
from orkbench_tui.driver.memory import Slice

__all__ = [
    "Activation",
    "bind_activation",
    "cores_for_outputs",
    "in_place_output",
    "require_array",
    "require_values",
]

_CACHE_LINE = 64
_ATOM = 16
_FP16_EXPONENT = 0x7C00


def require_array(array: np.ndarray, shape: tuple[int, ...], dtype: type[np.generic], what: str) -> None:
    """Raises OperandError unless ``array`` is C-contiguous with this shape and type."""
    if array.shape != shape or array.dtype != dtype:
        raise OperandError(
            what, why=f"{array.dtype} {list(array.shape)}; expected {np.dtype(dtype)} {list(shape)}"
        )
    if not array.flags.c_contiguous:
        raise OperandError(
            what,
            why=f"strides {array.strides} are not row after row",
            do="pass numpy.ascontiguousarray of it",
        )


def require_values(format: MatmulFormat, array: np.ndarray, what: str) -> None:
    """Raises OperandError for infinities and NaN in fp16, and for codes outside the format's range."""
    if format.operand is np.float16:
        odd = (array.view(np.uint16) & _FP16_EXPONENT) == _FP16_EXPONENT
        if odd.any():
            at = int(np.argmax(odd))
            raise OperandError(what, why=f"{array.reshape(-1)[at]} at element {at}; allowed: finite numbers")
    elif format.low is not None and format.high is not None:
        low, high = int(array.min()), int(array.max())
        if low < format.low or high > format.high:
            raise OperandError(
                what, why=f"codes {low} to {high}, {format.name} takes {format.low} to {format.high}"
            )


@dataclass(frozen=True, slots=True)
class Activation:
    """A as the caller holds it, ``array`` [rows, k], and the memory ``part`` the device reads it from."""

    array: np.ndarray
    part: Slice
    placement: Placement
    moved: bool

    def refresh(self) -> None:
        """Bring the caller's numbers into ``part``; nothing to do where they are written there."""
        if self.moved:
            self.placement.store_a(self.array, self.part.view)


def bind_activation(
    dma: DmaMemory, format: MatmulFormat, placement: Placement, part: Slice, given: np.ndarray | None
) -> Activation:
    """The activation of a matmul: ``given`` in place where it lies in NPU memory, else by way of ``part``.

    Without ``given`` the array handed back is the one to fill.

    Raises:
        OperandError: ``given`` lies partly in NPU memory.
    """
    if given is None:
        return Activation(placement.a_array(part.view), part, placement, moved=not placement.in_place)
    found = dma.find(given, "activation")
    reachable = found is not None and found.buffer.domain == part.buffer.domain
    if found is not None and reachable and placement.in_place and found.offset % _ATOM == 0:
        return Activation(given, found, placement, moved=False)
    return Activation(given, part, placement, moved=True)


def in_place_output(dma: DmaMemory, output: np.ndarray, domain: int = 0) -> Slice | None:
    """Where the device may write ``output`` directly from ``domain``; None when it lies in another one or
    when its cache lines have other owners too.

    Raises:
        OperandError: it lies partly in NPU memory.
    """
    found = dma.find(output, "output")
    if found is None or found.buffer.domain != domain or found.offset % _CACHE_LINE:
        return None
    whole_lines = found.size % _CACHE_LINE == 0 or dma.ends_array(found)
    return found if whole_lines else None


def cores_for_outputs(
    context: Context, in_place: Sequence[Slice | None], cores: int, *, fall_back: bool = True
) -> int:
    """How many of ``cores`` may write these results: one when any is written in the caller's memory.

    Raises:
        RefusedError: several were asked for and ``fall_back`` is off (GRD-23).
    """
    count = sum(part is not None for part in in_place)
    if not count or cores == 1:
        return cores
    seen = f"{count} results in NPU memory of the caller's, {cores} cores"
    if not fall_back:
        guards.refuse("GRD-23", seen=seen)
    context.say_once(guards.warning("GRD-23", seen=seen))
    return 1
