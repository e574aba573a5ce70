"""Number formats as they would run, computed in float32: rounded weights times rounded inputs.

For formats that nothing here runs natively, and as the prediction the native ones are held against. The head is
int8 in every 4-bit arm, as in the packs, and rounded as ggml does (8 bits in groups of 32) in ggml's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from orkbench_tui.errors import UsageError
from orkbench_tui.native.rotation import rotated
from orkbench_tui.runner.models.architecture import HEAD_NAME
from orkbench_tui.runner.orkpack.schemes import rotation_of, scheme_named
from orkbench_tui.runner.quantize.four_bit import four_bit, gptq_four_bit
from orkbench_tui.runner.quantize.gptq import gptq_int4
from orkbench_tui.runner.quantize.int4 import q4_0, uniform_int4
from orkbench_tui.runner.quantize.matmul_error import quantized_rows

__all__ = ["ARMS", "Arm", "Moments", "arm_named", "rotated_hessian"]

Floats = NDArray[np.float32]
Need = Literal["", "squares", "hessian"]


class Moments(Protocol):
    """What a calibration knows of a weight's inputs."""

    def squares(self, weight: str) -> Floats | None: ...

    def hessian(self, weight: str) -> Floats | None: ...


def rotated_rows(rows: Floats) -> Floats:
    """[R, K] in blocks of ``rotation_of(K)``; twice is nothing."""
    block = rotation_of(rows.shape[1])
    return rotated(np.ascontiguousarray(rows, np.float32), block) if block else rows


def rotated_hessian(hessian: Floats) -> Floats:
    """The mean of x xᵀ of inputs that are rotated."""
    return rotated_rows(np.ascontiguousarray(rotated_rows(hessian).T))


@dataclass(frozen=True, slots=True)
class Arm:
    """``weights(W, name, moments)`` and ``inputs(rows, name)`` give what W and rows become, not rotated.

    ``needs`` is what must be known of a weight's inputs.
    """

    name: str
    summary: str
    weights: Callable[[Floats, str, Moments | None], Floats]
    inputs: Callable[[Floats, str], Floats]
    needs: Need = ""


def _bits(rows: Floats, bits: int, group: int = 0) -> Floats:
    return quantized_rows(rows, bits, group).astype(np.float32)  # type: ignore[arg-type]


def _turned(change: Callable[[Floats], Floats], rotate: bool) -> Callable[[Floats], Floats]:
    """``change`` in the rotated space, its result turned back."""
    return (lambda rows: rotated_rows(change(rotated_rows(rows)))) if rotate else change


def _int8(rotate: bool) -> Callable[[Floats], Floats]:
    return _turned(lambda rows: _bits(rows, 8), rotate)


def _arm(
    name: str,
    summary: str,
    change: Callable[[Floats, str, Moments | None], Floats],
    activation: tuple[int, int],
    *,
    rotate: bool,
    needs: Need = "",
) -> Arm:
    """An arm whose layers take ``change`` (in the rotated space) and inputs of (bits, group)."""
    head = _int8(True)
    incoming = _turned(lambda rows: _bits(rows, *activation), rotate)

    def weights(w: Floats, weight: str, moments: Moments | None) -> Floats:
        if weight == HEAD_NAME:
            return head(w)
        return _turned(lambda rows: change(rows, weight, moments).astype(np.float32), rotate)(w)

    def inputs(rows: Floats, weight: str) -> Floats:
        return head(rows) if weight == HEAD_NAME else incoming(rows)

    return Arm(name, summary, weights, inputs, needs)


def _rtn(group: int) -> Callable[[Floats, str, Moments | None], Floats]:
    return lambda w, name, moments: uniform_int4(w, group, native=True).values.astype(np.float32)


def _searched(w: Floats, name: str, moments: Moments | None) -> Floats:
    return four_bit(w, "uniform", 32).values


def _need_hessian(name: str, moments: Moments | None) -> Floats:
    found = None if moments is None else moments.hessian(name)
    if found is None:
        raise UsageError(f"the calibration knows nothing of {name}", do="run: ork pack calibrate")
    return found


def _gptq(w: Floats, name: str, moments: Moments | None) -> Floats:
    return gptq_int4(w, _need_hessian(name, moments).astype(np.float64), 32).values.astype(np.float32)


def _gptq_rotated(w: Floats, name: str, moments: Moments | None) -> Floats:
    return gptq_four_bit(w, rotated_hessian(_need_hessian(name, moments))).values


def _mixed(w: Floats, name: str, moments: Moments | None) -> Floats:
    """What the scheme nf4-mixed stores, in the rotated space."""
    tier, _ = scheme_named("nf4-mixed").tier(name, w.shape[1])
    if tier == "int8":
        return _bits(w, 8)
    hessian = None if moments is None else moments.hessian(name)
    importance = None if hessian is None else np.diag(rotated_hessian(hessian))
    return four_bit(w, "nf4", 32, importance).values


def _ggml() -> Arm:
    def weights(w: Floats, name: str, moments: Moments | None) -> Floats:
        return _bits(w, 8, 32) if name == HEAD_NAME else q4_0(w).astype(np.float32)

    return Arm(
        "q4_0",
        "ggml's Q4_0, inputs in 8 bits in groups of 32",
        weights,
        lambda rows, name: _bits(rows, 8, 32),
    )


def _w8a8(name: str, rotate: bool) -> Arm:
    change = _int8(rotate)
    return Arm(
        name,
        "int8 per output channel and token" + (", rotated" if rotate else ""),
        lambda w, weight, moments: change(w),
        lambda rows, weight: change(rows),
    )


ARMS: dict[str, Arm] = {
    arm.name: arm
    for arm in (
        _w8a8("w8a8", False),
        _w8a8("w8a8-rot", True),
        _arm("w4a4", "4 bits per channel and token, nearest", _rtn(0), (4, 0), rotate=False),
        _arm("w4a4-rot", "the same, rotated", _rtn(0), (4, 0), rotate=True),
        _arm("w4a4-g32", "4 bits in groups of 32 on both sides, nearest", _rtn(32), (4, 32), rotate=False),
        _arm(
            "w4a4-g32-gptq",
            "the same, weights by GPTQ",
            _gptq,
            (4, 32),
            rotate=False,
            needs="hessian",
        ),
        _arm("w4a4-g32-rot", "4 bits in groups of 32, rotated, nearest", _rtn(32), (4, 32), rotate=True),
        _arm("w4a8-g32-rot", "what the pack scheme runs", _searched, (8, 0), rotate=True),
        _arm(
            "w4a8-g32-rot-gptq",
            "the same, weights by GPTQ",
            _gptq_rotated,
            (8, 0),
            rotate=True,
            needs="hessian",
        ),
        _arm("nf4-mixed", "what the pack scheme runs, with importance", _mixed, (8, 0), rotate=True),
        _ggml(),
    )
}


def arm_named(name: str) -> Arm:
    """UsageError with the known names where there is none of that name."""
    if name not in ARMS:
        raise UsageError(f"no arm fake:{name}", do=f"known: {', '.join(ARMS)}")
    return ARMS[name]
