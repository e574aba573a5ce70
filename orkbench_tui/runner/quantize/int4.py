"""4-bit quantizers for weights, as exact functions on float arrays: codes and scales in, values out.

Rows of W [N, K] are output channels. A group of G along K has its own scale (G = K: one a channel). Codes of
a value that is stored in 4 bits and multiplied in 8 stay within ±7; native 4-bit codes reach -8.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "CLIP_GRID",
    "NF4_LEVELS",
    "NF4_LUT",
    "Quantized",
    "StochasticRounding",
    "clip_search",
    "importance_cost",
    "nf4",
    "q4_0",
    "require_finite",
    "round_half_away",
    "uniform_int4",
]

Floats = NDArray[np.float64]
Kind = Literal["uniform", "nf4"]

NF4_LEVELS: Floats = np.array(
    [
        -1.0, -0.6961928, -0.52507305, -0.39491749, -0.28444138, -0.18477343, -0.09105004, 0.0,
        0.0795803, 0.1609302, 0.2461123, 0.33791524, 0.44070983, 0.562617, 0.72295684, 1.0,
    ]
)  # fmt: skip
CLIP_GRID = (1.0, 0.92, 0.85, 0.78, 0.70, 0.62, 0.55)
# What a code becomes where it is multiplied in 8 bits.
NF4_LUT: NDArray[np.int8] = (np.sign(NF4_LEVELS) * np.floor(np.abs(NF4_LEVELS) * 127 + 0.5)).astype(np.int8)


@dataclass(frozen=True, slots=True, eq=False)
class Quantized:
    """``codes`` int8 [N, K], ``scales`` [N, K / G], ``values`` what they stand for, [N, K]."""

    codes: NDArray[np.int8]
    scales: Floats
    values: Floats


class StochasticRounding:
    """xorshift32 from a fixed seed: the same weights give the same codes everywhere."""

    def __init__(self, seed: int = 0x2545F491) -> None:
        self._state = seed

    def next_bits(self) -> int:
        x = self._state
        x ^= (x << 13) & 0xFFFFFFFF
        x ^= x >> 17
        x ^= (x << 5) & 0xFFFFFFFF
        self._state = x
        return x

    def uniform(self, shape: tuple[int, ...]) -> Floats:
        """Values in [0, 1) in the order they are drawn: the upper 24 bits of each word."""
        count = int(np.prod(shape))
        return np.array([(self.next_bits() >> 8) / (1 << 24) for _ in range(count)]).reshape(shape)


def round_half_away(values: Floats) -> Floats:
    whole = np.trunc(values)
    return whole + np.sign(values) * (np.abs(values - whole) >= 0.5)


def require_finite(values: NDArray[np.floating], name: str = "the weights") -> None:
    """ValueError where a value is NaN or infinite."""
    if not bool(np.isfinite(values).all()):
        raise ValueError(f"{name} hold a value that is not a finite number")


def _groups(weights: NDArray[np.floating], group: int) -> Floats:
    n, k = weights.shape
    size = group or k
    if size < 1 or k % size:
        raise ValueError(f"rows of {k} values do not divide into groups of {size}")
    require_finite(weights)
    return weights.astype(np.float64).reshape(n, k // size, size)


def _scales(groups: Floats, divisor: float) -> Floats:
    scales = np.abs(groups).max(axis=2) / divisor
    scales[scales == 0] = 1.0
    return scales


def uniform_int4(
    weights: NDArray[np.floating],
    group: int = 0,
    *,
    native: bool = False,
    ratio: Floats | float = 1.0,
    stochastic: StochasticRounding | None = None,
) -> Quantized:
    """Scale absmax / 7 (times ``ratio``), codes within [-7, 7], or [-8, 7] where they stay 4 bits (``native``)."""
    groups = _groups(weights, group)
    scales = _scales(groups, 7.0) * ratio
    exact = groups / scales[:, :, None]
    whole = (
        round_half_away(exact) if stochastic is None else np.floor(exact + stochastic.uniform(exact.shape))
    )
    codes = np.clip(whole, -8 if native else -7, 7)
    values = (codes * scales[:, :, None]).reshape(weights.shape)
    return Quantized(codes.astype(np.int8).reshape(weights.shape), scales, values)


def nf4(
    weights: NDArray[np.floating],
    group: int = 0,
    *,
    ratio: Floats | float = 1.0,
    stochastic: StochasticRounding | None = None,
) -> Quantized:
    """Nearest of 16 levels of w / absmax, a tie to the higher; ``scales`` are absmax / 127, for codes as ``NF4_LUT``."""
    groups = _groups(weights, group)
    largest = _scales(groups, 1.0) * ratio
    exact = np.clip(groups / largest[:, :, None], -1.0, 1.0)
    above = np.clip(np.searchsorted(NF4_LEVELS, exact, side="right"), 1, len(NF4_LEVELS) - 1)
    low, high = NF4_LEVELS[above - 1], NF4_LEVELS[above]
    share = (exact - low) / (high - low)
    up = share >= 0.5 if stochastic is None else share > stochastic.uniform(exact.shape)
    codes = (above - 1 + up).astype(np.int8)
    scales = largest / 127
    values = NF4_LUT[codes].astype(np.float64) * scales[:, :, None]
    return Quantized(codes.reshape(weights.shape), scales, values.reshape(weights.shape))


def importance_cost(
    weights: NDArray[np.floating], values: Floats, importance: NDArray[np.floating]
) -> Floats:
    """Σ importance[k] · (w - value)² of every output channel, [N]."""
    return ((weights.astype(np.float64) - values) ** 2 * importance).sum(axis=1)


def clip_search(
    weights: NDArray[np.floating], importance: NDArray[np.floating] | None, kind: Kind = "uniform"
) -> tuple[Quantized, Floats]:
    """Per output channel the scale of ``CLIP_GRID`` with the least importance-weighted error, and that choice [N].

    ``importance`` [K] is the mean square of each input; without one this is plain absmax. The first of
    equal ones wins, so the error is never above that of absmax. ValueError for negative or NaN importance.
    """
    quantize = uniform_int4 if kind == "uniform" else nf4
    n, k = weights.shape
    if importance is None:
        return quantize(weights), np.ones(n)
    if (
        importance.shape != (k,)
        or not bool((importance >= 0).all())
        or not bool(np.isfinite(importance).all())
    ):
        raise ValueError(f"importance must be {k} finite values of at least 0")
    best = np.ones(n)
    least = np.full(n, np.inf)
    for ratio in CLIP_GRID:
        cost = importance_cost(weights, quantize(weights, ratio=ratio).values, importance)
        better = cost < least
        best[better], least[better] = ratio, cost[better]
    return quantize(weights, ratio=best[:, None]), best


def q4_0(weights: NDArray[np.floating]) -> Floats:
    """What ggml's Q4_0 makes of the weights: groups of 32, scale (value of largest magnitude) / -8 as float16."""
    groups = _groups(weights, 32)
    at = np.abs(groups).argmax(axis=2)[:, :, None]
    exact = np.take_along_axis(groups, at, axis=2) / -8
    inverse = np.divide(1.0, exact, out=np.zeros_like(exact), where=exact != 0)
    codes = np.clip(np.floor(groups * inverse + 8.5), 0, 15)
    values = (codes - 8) * exact.astype(np.float16).astype(np.float64)
    return values.reshape(weights.shape)
