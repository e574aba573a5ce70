"""4-bit weights that run as int8: codes, a multiplier for each group, a scale for each row.

    int8 weight = (level[code] * multiplier + 64) >> 7        value = int8 weight * scale of the row

The int8 matmul knows one scale a row, so groups differ by an integer multiplier instead of a scale of their
own: what a pack stores in 4 bits is exactly what the NPU and the CPU multiply.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from orkbench_tui.runner.quantize.gptq import hessian_factor
from orkbench_tui.runner.quantize.int4 import CLIP_GRID, NF4_LEVELS, NF4_LUT, require_finite

__all__ = ["LEVELS", "FourBit", "Kind4", "four_bit", "gptq_four_bit", "group_steps", "nibble_levels"]

Floats = NDArray[np.float32]
Kind4 = Literal["uniform", "nf4"]

# A uniform code is 16 times itself, so that a multiplier has seven bits as it has for the codebook.
_UNIFORM: NDArray[np.int8] = (np.arange(-8, 8) * 16).astype(np.int8)
LEVELS: dict[Kind4, NDArray[np.int8]] = {"uniform": _UNIFORM, "nf4": NF4_LUT}
_LARGEST = 127
# Steps that are tried, as parts of the one that maps the value of largest magnitude to the 16th code, -8.
_STEP_GRID = tuple(round(0.66 + 0.035 * i, 4) for i in range(16))
_OTHER_SIGN = 8 / 7
_ROWS = 1024


@dataclass(frozen=True, slots=True, eq=False)
class FourBit:
    """``codes`` uint8 [N, K] are 0..15; ``multipliers`` int8 [N, K / G], None with one group a row;
    ``scales`` float32 [N]."""

    kind: Kind4
    codes: NDArray[np.uint8]
    multipliers: NDArray[np.int8] | None
    scales: Floats

    @property
    def int8(self) -> NDArray[np.int8]:
        """[N, K] as they are multiplied."""
        level = LEVELS[self.kind].astype(np.int16)[self.codes]
        if self.multipliers is None:
            return level.astype(np.int8)
        group = self.codes.shape[1] // self.multipliers.shape[1]
        return _inflated(level, np.repeat(self.multipliers.astype(np.int16), group, axis=1))

    @property
    def values(self) -> Floats:
        """[N, K] as float32."""
        values: Floats = self.int8 * self.scales[:, None]
        return values

    @property
    def nibbles(self) -> NDArray[np.uint8]:
        """[N, K / 2], even k in the low nibble; the code of a uniform weight in two's complement."""
        codes = (self.codes ^ 8) if self.kind == "uniform" else self.codes
        return (codes[:, ::2] | codes[:, 1::2] << 4).astype(np.uint8)


def nibble_levels(kind: Kind4) -> NDArray[np.int8]:
    """What each of the 16 nibbles stands for before its group's multiplier."""
    return np.roll(_UNIFORM, 8) if kind == "uniform" else NF4_LUT


def _inflated(level: NDArray[np.int16], multiplier: NDArray[np.int16]) -> NDArray[np.int8]:
    return ((level * multiplier + 64) >> 7).astype(np.int8)


def group_steps(groups: Floats, importance: Floats | None = None) -> Floats:
    """The step d of each group [R, G] with the least Σ importance · (w - d · code)², code within -8..7.

    d has the sign that maps the value of largest magnitude to -8, or the other one where that is better.
    ``importance`` [R or 1, G] counts all inputs alike where there is none. 0 for a group of zeros.
    """
    at = np.abs(groups).argmax(axis=1)
    largest = groups[np.arange(len(groups)), at]
    weighted = groups if importance is None else groups * importance
    best_gain = np.full(len(groups), -1.0, np.float32)
    best = largest / np.float32(-8)
    for share in (*_STEP_GRID, *(-_OTHER_SIGN * share for share in _STEP_GRID)):
        step = largest * np.float32(share / -8)
        inverse = np.divide(1.0, step, out=np.zeros_like(step), where=step != 0)
        codes = np.rint(groups * inverse[:, None])
        np.clip(codes, -8, 7, out=codes)
        # The step of least squares for these codes, and how much of Σ w² it explains.
        product = np.einsum("rg,rg->r", weighted, codes)
        power = np.einsum("rg,rg->r", codes if importance is None else codes * importance, codes)
        fitted = np.divide(product, power, out=np.zeros_like(product), where=power > 0)
        gain = product * fitted
        better = gain > best_gain
        best[better], best_gain[better] = fitted[better], gain[better]
    return best.astype(np.float32)


def four_bit(
    weights: NDArray[np.floating],
    kind: Kind4 = "uniform",
    group: int = 32,
    importance: NDArray[np.floating] | None = None,
) -> FourBit:
    """Codes of W [N, K] of least (importance-weighted) squared error; ``group`` 0 is one a row.

    ``importance`` [K] is the mean square of each input.

    Raises:
        ValueError: sizes that do not fit, or values that are not finite.
    """
    n, k = weights.shape
    size = group or k
    if k % size:
        raise ValueError(f"rows of {k} values do not divide into groups of {size}")
    require_finite(weights)
    own = _checked_importance(importance, k)
    parts = [
        _rows(weights[first : first + _ROWS].astype(np.float32), kind, size, own)
        for first in range(0, n, _ROWS)
    ]
    return FourBit(
        kind,
        np.concatenate([part.codes for part in parts]),
        None if size == k else np.concatenate([p.multipliers for p in parts if p.multipliers is not None]),
        np.concatenate([part.scales for part in parts]),
    )


def _checked_importance(importance: NDArray[np.floating] | None, k: int) -> Floats | None:
    if importance is None:
        return None
    if importance.shape != (k,) or not bool(np.isfinite(importance).all()) or bool((importance < 0).any()):
        raise ValueError(f"importance must be {k} finite values of at least 0")
    mean = float(importance.mean())
    return (importance / mean).astype(np.float32) if mean > 0 else None


def _rows(weights: Floats, kind: Kind4, size: int, importance: Floats | None) -> FourBit:
    n, k = weights.shape
    groups = weights.reshape(-1, size)
    own = None
    if importance is not None:
        own = np.tile(importance.reshape(-1, size), (n, 1))
    if kind == "uniform":
        steps = group_steps(groups, own)
    else:
        steps = _codebook_reach(groups, own)
    scales, multipliers = _row_scales(steps.reshape(n, -1), kind)
    if size == k:
        # A row's scale is positive, so its largest value cannot have the 16th code at either end.
        steps = np.abs(steps)
        codes = _nearest(groups, steps, kind)
        return FourBit(kind, codes.reshape(n, k), None, _single_scales(steps, kind))
    real = (scales[:, None] * multipliers * _per_multiplier(kind)).reshape(-1)
    codes = _nearest(groups, real.astype(np.float32), kind)
    return FourBit(kind, codes.reshape(n, k), multipliers, scales)


def _per_multiplier(kind: Kind4) -> np.float32:
    """What a group's step (uniform) or largest value (codebook) is, in multipliers times row scales."""
    return np.float32(16 / 128 if kind == "uniform" else 127 / 128)


def _row_scales(steps: Floats, kind: Kind4) -> tuple[Floats, NDArray[np.int8]]:
    """Row scales [N] and multipliers [N, groups] that come nearest to ``steps`` [N, groups]."""
    largest = np.abs(steps).max(axis=1)
    scales = np.where(largest > 0, largest / (_per_multiplier(kind) * _LARGEST), 1.0).astype(np.float32)
    multipliers = np.rint(steps / (scales[:, None] * _per_multiplier(kind)))
    return scales, np.clip(multipliers, -_LARGEST, _LARGEST).astype(np.int8)


def _single_scales(steps: Floats, kind: Kind4) -> Floats:
    """Row scales where a level is the int8 weight itself; always positive."""
    divisor = 16 if kind == "uniform" else 127
    scales: Floats = np.where(steps != 0, np.abs(steps) / np.float32(divisor), 1.0).astype(np.float32)
    return scales


def _codebook_reach(groups: Floats, importance: Floats | None) -> Floats:
    """What the level 1 of the codebook should be in each group: the part of absmax with the least error."""
    absmax = np.abs(groups).max(axis=1)
    best, least = absmax.copy(), np.full(len(groups), np.inf, np.float32)
    for share in CLIP_GRID:
        reach = absmax * np.float32(share)
        safe = np.where(reach > 0, reach, 1.0)
        levels = NF4_LEVELS.astype(np.float32)[_nearest(groups, reach, "nf4")]
        error = (groups - levels * safe[:, None]) ** 2
        cost = (error if importance is None else error * importance).sum(axis=1)
        better = cost < least
        best[better], least[better] = reach[better], cost[better]
    return best


_NF4_BOUNDS = ((NF4_LEVELS[1:] + NF4_LEVELS[:-1]) / 2).astype(np.float32)


def _nearest(groups: Floats, steps: Floats, kind: Kind4) -> NDArray[np.uint8]:
    """Codes 0..15 of groups [R, G] for steps [R]."""
    inverse = np.divide(1.0, steps, out=np.zeros_like(steps), where=steps != 0)
    exact = groups * inverse[:, None]
    if kind == "uniform":
        return (np.clip(np.rint(exact), -8, 7) + 8).astype(np.uint8)
    return np.searchsorted(_NF4_BOUNDS, exact, side="right").astype(np.uint8)


def gptq_four_bit(
    weights: NDArray[np.floating],
    hessian: NDArray[np.floating],
    group: int = 32,
    damp: float = 0.01,
    block: int = 128,
) -> FourBit:
    """GPTQ onto uniform codes with multipliers: each column's error is spread over the columns to come.

    ``hessian`` [K, K] may have any positive scale. A group's multiplier is chosen when its first column
    comes, from its weights as the earlier errors left them.

    Raises:
        ValueError: sizes that do not fit, values that are not finite, or a Hessian no damping helps.
    """
    n, k = weights.shape
    if not group or k % group or hessian.shape != (k, k):
        raise ValueError(f"W [{n}, {k}] with H {list(hessian.shape)} and groups of {group}")
    require_finite(weights)
    require_finite(hessian, "the Hessian")
    left = weights.astype(np.float64).copy()
    H = hessian.astype(np.float64).copy()
    dead = np.diag(H) == 0
    H[dead, dead] = 1
    left[:, dead] = 0
    importance = np.diag(H).astype(np.float32)
    U = hessian_factor(H, damp)
    # Errors that arrive make a group's weights larger than they were: a tenth is left for that.
    first_steps = group_steps(
        weights.astype(np.float32).reshape(-1, group), np.tile(importance.reshape(-1, group), (n, 1))
    )
    scales, _ = _row_scales(first_steps.reshape(n, -1) * np.float32(1.1), "uniform")
    codes = np.zeros((n, k), np.uint8)
    multipliers = np.zeros((n, k // group), np.int8)
    for first in range(0, k, block):
        last = min(first + block, k)
        errors = np.zeros((n, last - first))
        for j in range(first, last):
            if j % group == 0:
                if j > first:
                    left[:, last:] -= errors[:, : j - first] @ U[first:j, last:]
                    errors[:, : j - first] = 0
                part = left[:, j : j + group].astype(np.float32)
                steps = group_steps(part, importance[None, j : j + group])
                exact = steps / (scales * _per_multiplier("uniform"))
                multipliers[:, j // group] = np.clip(np.rint(exact), -_LARGEST, _LARGEST)
            multiplier = multipliers[:, j // group].astype(np.int16)
            step = (multiplier * _per_multiplier("uniform") * scales).astype(np.float32)
            codes[:, j] = _nearest(left[:, j, None].astype(np.float32), step, "uniform")[:, 0]
            value = _inflated(_UNIFORM.astype(np.int16)[codes[:, j]], multiplier) * scales
            error = (left[:, j] - value) / U[j, j]
            left[:, j + 1 : last] -= error[:, None] * U[j, j + 1 : last]
            errors[:, j - first] = error
        left[:, last:] -= errors @ U[first:last, last:]
    return FourBit("uniform", codes, multipliers, scales)
