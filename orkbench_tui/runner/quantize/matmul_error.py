"""Errors of one matmul under each scheme, against float64, with ggml's Q4_0 beside them.

GPTQ is not among them: the inputs here are independent, and it lives on inputs that go together.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from orkbench_tui.native.rotation import rotated_in_numpy
from orkbench_tui.runner.orkpack.schemes import rotation_of
from orkbench_tui.runner.quantize.four_bit import four_bit
from orkbench_tui.runner.quantize.int4 import nf4, q4_0, round_half_away, uniform_int4
from orkbench_tui.runner.quantize.rotations import ROTATIONS, Rotation

__all__ = ["ARMS", "MatmulError", "frobenius_error", "harness_activations", "matmul_errors", "quantized_rows"]

Floats = NDArray[np.float64]
_OUTPUTS = 256


@dataclass(frozen=True, slots=True)
class MatmulError:
    """``relative``: norm of the error over norm of the product. The others: |error| / rms of the product."""

    relative: float
    p50: float
    p90: float
    p99: float
    worst: float

    @classmethod
    def of(cls, got: Floats, exact: Floats) -> MatmulError:
        error = np.abs(got - exact)
        size = float(np.sqrt((exact**2).mean()))
        p50, p90, p99 = (float(np.percentile(error, share)) / size for share in (50, 90, 99))
        relative = float(np.linalg.norm(got - exact) / np.linalg.norm(exact))
        return cls(relative, p50, p90, p99, float(error.max()) / size)


def frobenius_error(weights: NDArray[np.floating], values: Floats) -> float:
    """‖W - values‖ / ‖W‖."""
    exact = weights.astype(np.float64)
    return float(np.linalg.norm(exact - values) / np.linalg.norm(exact))


def harness_activations(k: int, rows: int = 16, seed: int = 0) -> Floats:
    """Gaussian rows in which every 97th input is ten times as large."""
    activations = np.random.default_rng(seed).standard_normal((rows, k))
    activations[:, ::97] *= 10
    return activations


def quantized_rows(rows: Floats, bits: int, group: int = 0) -> Floats:
    """Values of symmetric codes with one scale a row, or one for each ``group`` values of it."""
    limit = (1 << (bits - 1)) - 1
    parts = rows.reshape(len(rows), -1, group or rows.shape[1])
    scales = np.abs(parts).max(axis=2, keepdims=True) / limit
    scales[scales == 0] = 1.0
    return (np.clip(round_half_away(parts / scales), -limit, limit) * scales).reshape(rows.shape)


def _product(a: Floats, w: Floats) -> Floats:
    return a @ w.T


def _rotated(block: Callable[[int], int]) -> Callable[[Floats], Floats]:
    return lambda x: rotated_in_numpy(x, block(x.shape[1]))


def _w8a8(a: Floats, w: Floats) -> Floats:
    return _product(quantized_rows(a, 8), quantized_rows(w, 8))


def _w8a8_rotated(a: Floats, w: Floats) -> Floats:
    turn = _rotated(rotation_of)
    return _w8a8(turn(a), turn(w))


def _w4a4_turned(rotation: Rotation) -> Callable[[Floats, Floats], Floats]:
    plain = _w4(4, 0, False)
    return lambda a, w: plain(rotation.turn(a), rotation.turn(w))


def _w4(activation_bits: int, group: int, rotate: bool) -> Callable[[Floats, Floats], Floats]:
    def run(a: Floats, w: Floats) -> Floats:
        if rotate:
            turn = _rotated(lambda width: group or rotation_of(width))
            a, w = turn(a), turn(w)
        own = group if activation_bits == 4 else 0
        if activation_bits == 4:
            values = uniform_int4(w, group, native=True).values
        else:
            # As packs store and multiply it.
            values = four_bit(w, "uniform", group).values.astype(np.float64)
        return _product(quantized_rows(a, activation_bits, own), values)

    return run


# Name → product of activations [M, K] and weights [N, K] under the scheme.
ARMS: dict[str, Callable[[Floats, Floats], Floats]] = {
    "w8a8": _w8a8,
    "w8a8-rot": _w8a8_rotated,
    "w4a4": _w4(4, 0, False),
    "w4a4-rot": _w4(4, 0, True),
    "w4a4-signed": _w4a4_turned(ROTATIONS["signed"]),
    "w4a4-spread": _w4a4_turned(ROTATIONS["spread"]),
    "w4a4-g32": _w4(4, 32, False),
    "w4a4-g32-rot": _w4(4, 32, True),
    "w4a8-g32-rot": _w4(8, 32, True),
    "nf4-a8": lambda a, w: _product(quantized_rows(a, 8), nf4(w).values),
    "q4_0 (ggml)": lambda a, w: _product(quantized_rows(a, 8, 32), q4_0(w)),
}


def matmul_errors(weights: NDArray[np.floating], activations: Floats | None = None) -> dict[str, MatmulError]:
    """Every arm on the first outputs of W [N, K]; K must be a multiple of 32."""
    w = weights[:_OUTPUTS].astype(np.float64)
    a = harness_activations(w.shape[1]) if activations is None else activations
    exact = _product(a, w)
    return {name: MatmulError.of(run(a, w), exact) for name, run in ARMS.items()}
