"""One expert's tiles straight from the stored blocks of a model file: dequantized a row at a time, then quantized."""

from __future__ import annotations

from typing import TYPE_CHECKING

from orkbench_tui.native.row_packing import tiles_from_rows
from orkbench_tui.runner.ggml_data import dequantize_rows
from orkbench_tui.runner.gguf_file import GgufFile
from orkbench_tui.runner.models.architecture import Linear

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["tiles_of_linear"]


def tiles_of_linear(
    model: GgufFile, linear: Linear, *, rotation: int = 0
) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """(tiles, scales) of a weight, the bytes its float32 copy would give; that copy is never made.

    Raises:
        InvalidFileError: a type without float conversion.
    """
    info = model.tensors[linear.source]
    blocks, shape = model.raw(linear.source), info.shape
    if linear.index is not None:
        size = info.nbytes // shape[-1]
        blocks, shape = blocks[linear.index * size : (linear.index + 1) * size], shape[:-1]

    def read(row: int, out: NDArray[np.float32]) -> None:
        out[:] = dequantize_rows(blocks, info.type, shape, linear.source, [row])[0]

    return tiles_from_rows(read, linear.N, linear.K, rotation=rotation)
