"""Where an element lies in NPU memory, as index maps and as array reshapes.

Indices are element indices into a flat buffer. The maps are the definition; the reshapes do the same
for whole arrays and are checked against them.
"""

from __future__ import annotations

import numpy as np

from orkbench_tui.driver.regcmd.programs import MatmulPrecision

__all__ = [
    "cube_index",
    "from_cube",
    "pack_nibbles",
    "tile_weights",
    "to_cube",
    "unpack_nibbles",
    "untile_weights",
    "weight_index",
]


def weight_index(precision: MatmulPrecision, k_total: int, n: int, k: int) -> int:
    """Element index of weight (n, k) in a blob of ``k_total`` columns."""
    group, granule = precision.kernel_group, precision.k_granule
    return n // group * group * k_total + k // granule * group * granule + n % group * granule + k % granule


def cube_index(rows_total: int, per_atom: int, row: int, channel: int) -> int:
    """Element index of (row, channel) in a cube ``[channels/per_atom][rows][per_atom]``."""
    return channel // per_atom * rows_total * per_atom + row * per_atom + channel % per_atom


def _round_up(value: int, granule: int) -> int:
    return -(-value // granule) * granule


def tile_weights(precision: MatmulPrecision, weights: np.ndarray) -> np.ndarray:
    """Row-major weights ``[N, K]`` as a flat blob of tiles, N and K padded with zeros.

    Returns an array of the same dtype, length ``N_padded * K_padded``.
    """
    n, k = weights.shape
    group, granule = precision.kernel_group, precision.k_granule
    n_padded, k_padded = _round_up(n, group), _round_up(k, granule)
    if (n_padded, k_padded) != (n, k):
        padded = np.zeros((n_padded, k_padded), dtype=weights.dtype)
        padded[:n, :k] = weights
        weights = padded
    tiles = weights.reshape(n_padded // group, group, k_padded // granule, granule)
    return np.ascontiguousarray(tiles.transpose(0, 2, 1, 3)).reshape(-1)


def untile_weights(precision: MatmulPrecision, tiles: np.ndarray, n: int, k: int) -> np.ndarray:
    """The ``[N, K]`` matrix a blob of tiles holds, padding removed."""
    group, granule = precision.kernel_group, precision.k_granule
    n_padded, k_padded = _round_up(n, group), _round_up(k, granule)
    blocks = tiles.reshape(n_padded // group, k_padded // granule, group, granule)
    return np.ascontiguousarray(blocks.transpose(0, 2, 1, 3).reshape(n_padded, k_padded)[:n, :k])


def to_cube(matrix: np.ndarray, per_atom: int) -> np.ndarray:
    """Row-major ``[rows, channels]`` as a flat cube; channels must be a multiple of ``per_atom``."""
    rows, channels = matrix.shape
    return np.ascontiguousarray(
        matrix.reshape(rows, channels // per_atom, per_atom).transpose(1, 0, 2)
    ).reshape(-1)


def from_cube(cube: np.ndarray, rows: int, channels: int, per_atom: int) -> np.ndarray:
    """The ``[rows, channels]`` matrix a flat cube holds."""
    return np.ascontiguousarray(
        cube.reshape(channels // per_atom, rows, per_atom).transpose(1, 0, 2)
    ).reshape(rows, channels)


def pack_nibbles(codes: np.ndarray) -> np.ndarray:
    """int4 codes (int8 values -8..7, even count) as bytes; the even index is the low nibble."""
    pairs = codes.reshape(-1, 2).view(np.uint8)
    return (pairs[:, 0] & 0xF) | (pairs[:, 1] << 4)


def unpack_nibbles(data: np.ndarray) -> np.ndarray:
    """The int8 codes of packed nibbles."""
    low = (data << 4).view(np.int8) >> 4
    high = data.view(np.int8) >> 4
    return np.stack([low, high], axis=1).reshape(-1)
