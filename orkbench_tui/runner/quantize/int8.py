"""The w8a8 scheme for weights: one scale per output row, codes in NPU tile order.

    scale = absmax(row) / 127     code = clamp(round_half_away(w / scale), -127, 127)

A row of zeros has scale 1 and codes 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from orkbench_tui.errors import InvalidFileError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["all_zeros", "not_finite", "quantize_rows"]


def quantize_rows(
    weights: NDArray[np.float32],
    name: str,
    first_row: int = 0,
    rotation: int = 0,
    threads: int | None = None,
) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """float32 [N, K] → (int8 tiles [padded N · padded K] flat, float32 scales [N]).

    ``rotation`` is the block of the Walsh-Hadamard transform each row goes through first, 0 for none.

    InvalidFileError names tensor and row (counted from ``first_row``) where a weight is NaN or infinite.
    ``threads`` is every processor this process may use unless given.
    """
    import numpy as np

    from orkbench_tui.native.tiles import quantize_weights

    source = np.ascontiguousarray(weights, dtype=np.float32)
    tiles, scales = quantize_weights(source, rotation=rotation, threads=threads)
    bad = np.flatnonzero(~np.isfinite(scales))
    if bad.size:
        raise not_finite(name, first_row + int(bad[0]))
    return tiles, scales


def not_finite(name: str, row: int) -> InvalidFileError:
    """The refusal of a weight that is NaN or infinite."""
    return InvalidFileError(
        f"tensor {name} cannot be quantized",
        why=f"row {row} holds a weight that is not a finite number",
        do="download the model again or choose another",
    )


def all_zeros(name: str) -> InvalidFileError:
    """The refusal of a weight without a value: a model file whose weights are in a pack reads so."""
    return InvalidFileError(
        f"tensor {name} is all zeros",
        why="a stub of a model reads so where only its pack has the weights",
        do="run the pack, or take the whole model file",
    )
