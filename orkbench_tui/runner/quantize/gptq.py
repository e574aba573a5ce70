"""GPTQ: int4 rounding column by column, each error spread over the columns still to come."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from orkbench_tui.runner.quantize.int4 import Quantized, require_finite, round_half_away

__all__ = ["gptq_int4", "hessian_factor", "hessian_of", "weighted_error"]

Floats = NDArray[np.float64]
_MOST_DAMPING = 10.0


def hessian_of(activations: NDArray[np.floating]) -> Floats:
    """2 XᵀX of activations [M, K]."""
    rows = activations.astype(np.float64)
    return 2 * rows.T @ rows


def weighted_error(weights: NDArray[np.floating], values: Floats, hessian: Floats) -> float:
    """trace(E H Eᵀ) of E = weights - values: the squared error of the products."""
    error = weights.astype(np.float64) - values
    return float(((error @ hessian) * error).sum())


def gptq_int4(
    weights: NDArray[np.floating], hessian: Floats, group: int = 0, damp: float = 0.01, block: int = 128
) -> Quantized:
    """Codes within [-8, 7] of W [N, K] with a scale for each ``group`` along K (0: for each row).

    ``hessian`` [K, K] may have any positive scale; inputs that never occur (zero diagonal) get weight 0.
    ``damp`` times the mean diagonal is added to it, ten times more as long as it is not positive definite.
    ``block`` columns are updated at once, which changes nothing but speed.

    Raises:
        ValueError: sizes that do not fit, values that are not finite, or no damping helps.
    """
    n, k = weights.shape
    size = group or k
    if hessian.shape != (k, k) or k % size:
        raise ValueError(f"W [{n}, {k}] with H {list(hessian.shape)} and groups of {size}")
    require_finite(weights)
    require_finite(hessian, "the Hessian")
    left = weights.astype(np.float64).copy()
    H = hessian.astype(np.float64).copy()
    dead = np.diag(H) == 0
    H[dead, dead] = 1
    left[:, dead] = 0
    U = hessian_factor(H, damp)
    codes = np.zeros((n, k), np.int8)
    scales = np.ones((n, k // size))
    values = np.zeros((n, k))
    for first in range(0, k, block):
        last = min(first + block, k)
        errors = np.zeros((n, last - first))
        for j in range(first, last):
            if j % size == 0:
                if j > first:
                    # A group's scale is that of its weights as all earlier errors left them.
                    left[:, last:] -= errors[:, : j - first] @ U[first:j, last:]
                    errors[:, : j - first] = 0
                absmax = np.abs(left[:, j : j + size]).max(axis=1) / 7
                scales[:, j // size] = np.where(absmax == 0, 1.0, absmax)
            scale = scales[:, j // size]
            code = np.clip(round_half_away(left[:, j] / scale), -8, 7)
            codes[:, j], values[:, j] = code, code * scale
            error = (left[:, j] - values[:, j]) / U[j, j]
            left[:, j + 1 : last] -= error[:, None] * U[j, j + 1 : last]
            errors[:, j - first] = error
        left[:, last:] -= errors @ U[first:last, last:]
    return Quantized(codes, scales, values)


def hessian_factor(H: Floats, damp: float) -> Floats:
    """U with H⁻¹ = UᵀU, upper triangular."""
    mean = float(np.diag(H).mean())
    part = damp if damp > 0 else 1e-6
    while part <= max(_MOST_DAMPING, damp):
        try:
            damped = H + part * mean * np.eye(len(H))
            np.linalg.cholesky(damped)
            inverse = np.linalg.inv(damped)
            factor: Floats = np.linalg.cholesky((inverse + inverse.T) / 2).T.astype(np.float64)
            return factor
        except np.linalg.LinAlgError:
            part *= 10
    raise ValueError("the Hessian is not positive definite, whatever is added to its diagonal")
