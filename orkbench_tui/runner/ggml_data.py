"""Stored tensor bytes → float32, in row chunks so that the working set stays small."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from orkbench_tui.errors import InvalidFileError
from orkbench_tui.runner.gguf_types import UNSUPPORTED_TYPES, GgmlType, tensor_bytes

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["dequantize", "dequantize_row_chunks", "dequantize_rows"]

_PLAIN = {
    GgmlType.F32: "<f4",
    GgmlType.F16: "<f2",
    GgmlType.F64: "<f8",
    GgmlType.I8: "<i1",
    GgmlType.I16: "<i2",
    GgmlType.I32: "<i4",
    GgmlType.I64: "<i8",
}
_CHUNK_ELEMENTS = 1 << 20
# Chunks hold whole strips of NPU tiles, so that each can be packed on its own.
ROW_GROUP = 32


def _decode(data: NDArray[np.uint8], type_: GgmlType, name: str) -> NDArray[np.float32]:
    """``data`` (uint8, whole blocks) as a flat float32 array."""
    import numpy as np

    if type_ in _PLAIN:
        return data.view(_PLAIN[type_]).astype(np.float32, copy=False)
    if type_ in UNSUPPORTED_TYPES:
        raise InvalidFileError(
            f"tensor {name} cannot be read",
            why=f"it is stored as {type_.name}, which has no float conversion here",
            do="use a file quantized to Q8_0, Q6_K or Q4_K_M",
        )
    import gguf

    # One row makes the library convert everything in one call; it works on 16 rows at a time otherwise.
    with np.errstate(all="ignore"):
        out = gguf.quants.dequantize(data.reshape(1, -1), gguf.GGMLQuantizationType(int(type_)))
    return np.ascontiguousarray(out, dtype=np.float32).reshape(-1)


def dequantize_row_chunks(
    raw: memoryview, type_: GgmlType, shape: tuple[int, ...], name: str
) -> Iterator[tuple[int, NDArray[np.float32]]]:
    """Yield ``(first_row, float32 [rows, K])`` over all rows; a row is the fastest dimension.

    All chunks but the last hold a multiple of 32 rows.
    """
    import numpy as np

    row_elements = shape[0]
    row_bytes = tensor_bytes(type_, (row_elements,))
    rows = 1
    for dim in shape[1:]:
        rows *= dim
    data = np.frombuffer(raw, dtype=np.uint8)
    step = max(1, _CHUNK_ELEMENTS // row_elements // ROW_GROUP) * ROW_GROUP
    for first in range(0, rows, step):
        last = min(rows, first + step)
        values = _decode(data[first * row_bytes : last * row_bytes], type_, name)
        yield first, values.reshape(last - first, row_elements)


def dequantize(raw: memoryview, type_: GgmlType, shape: tuple[int, ...], name: str) -> NDArray[np.float32]:
    """A float32 copy with the dimensions reversed: ``[K, N]`` in the file is ``[N, K]`` here."""
    import numpy as np

    out = np.empty(tuple(reversed(shape)), dtype=np.float32)
    flat = out.reshape(-1, shape[0])
    for first, rows in dequantize_row_chunks(raw, type_, shape, name):
        flat[first : first + len(rows)] = rows
    return out


def dequantize_rows(
    raw: memoryview,
    type_: GgmlType,
    shape: tuple[int, ...],
    name: str,
    ids: Sequence[int] | NDArray[np.integer],
) -> NDArray[np.float32]:
    """Rows ``ids`` of a two-dimensional tensor as float32 ``[len(ids), K]``; IndexError outside 0..N-1."""
    import numpy as np

    row_bytes = tensor_bytes(type_, (shape[0],))
    data = np.frombuffer(raw, dtype=np.uint8).reshape(-1, row_bytes)
    wanted = np.asarray(ids, dtype=np.int64).reshape(-1)
    if wanted.size and (wanted.min() < 0 or wanted.max() >= len(data)):
        raise IndexError(f"row of {name} outside 0..{len(data) - 1}")
    return _decode(np.ascontiguousarray(data[wanted]).reshape(-1), type_, name).reshape(len(wanted), shape[0])
