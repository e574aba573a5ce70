"""The w8a8 scheme in plain numpy: the oracle for the native quantizer and for the int8 engine."""

from __future__ import annotations

import numpy as np


def round_half_away(values: np.ndarray) -> np.ndarray:
    """Nearest integer, halves away from zero; exact for float32 because the fraction is."""
    whole = np.trunc(values)
    return whole + (np.abs(values - whole) >= 0.5) * np.sign(values)


def quantize(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """float32 [N, K] → (int8 codes [N, K], float32 scales [N]); a row of zeros has scale 1."""
    rows = rows.astype(np.float32)
    scales = np.abs(rows).max(axis=1) / np.float32(127)
    scales[scales == 0] = 1
    codes = np.clip(round_half_away(rows / scales[:, None]), -127, 127)
    return codes.astype(np.int8), scales.astype(np.float32)


def hadamard(rows: np.ndarray) -> np.ndarray:
    """float32 [M, K] with every block (the largest power of two dividing K, at most 128) times the orthonormal ±1 matrix.

    Butterflies in rising distance, as the kernels add, so that codes compare exactly.
    """
    width = rows.shape[1]
    block, apart = min(width & -width, 128), 1
    values = rows.astype(np.float32)
    while apart < block:
        at = np.arange(width)
        partner = values[:, at ^ apart]
        values = np.where(at & apart, partner - values, values + partner)
        apart *= 2
    return values * (np.float32(1) / np.sqrt(np.float32(block)))


def tile(codes: np.ndarray) -> np.ndarray:
    """int8 [N, K] → flat [N/32][K/32][32 n][32 k], padded with zeros."""
    n, k = codes.shape
    padded = np.zeros((-(-n // 32) * 32, -(-k // 32) * 32), dtype=np.int8)
    padded[:n, :k] = codes
    blocks = padded.reshape(padded.shape[0] // 32, 32, padded.shape[1] // 32, 32)
    return np.ascontiguousarray(blocks.transpose(0, 2, 1, 3)).reshape(-1)


def untile(tiles: np.ndarray, n: int, k: int) -> np.ndarray:
    """The int8 [N, K] matrix a tile blob holds, padding removed."""
    columns = -(-k // 32)
    blocks = tiles.reshape(-1, columns, 32, 32).transpose(0, 2, 1, 3)
    return blocks.reshape(-1, columns * 32)[:n, :k]


def accumulate(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Exact integer products of codes, int8 [M, K] by [N, K] transposed, as float64 [M, N].

    Float32 matrix multiplication is exact while sums stay below 2^24: up to 1024 products of codes.
    """
    total = np.zeros((left.shape[0], right.shape[0]), dtype=np.float64)
    for first in range(0, left.shape[1], 1024):
        part = slice(first, first + 1024)
        total += left[:, part].astype(np.float32) @ right[:, part].astype(np.float32).T
    return total
