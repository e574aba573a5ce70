"""A GGUF model file, mapped and validated before anything in it is trusted.

Opening costs the header only: tensor data is not read, arrays of metadata are decoded when looked up.
Every number is a Python int, so no product of dimensions can wrap.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from orkbench_tui.errors import InvalidFileError
from orkbench_tui.runner.ggml_data import dequantize, dequantize_row_chunks, dequantize_rows
from orkbench_tui.runner.gguf_types import REMOVED_TYPES, GgmlType, tensor_bytes
from orkbench_tui.runner.gguf_values import Cursor, Metadata
from orkbench_tui.runner.mapped_file import MappedFile, map_file

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["GgufFile", "TensorInfo"]

_MAGIC = b"GGUF"
_VERSIONS = (2, 3)
_MAX_NAME_BYTES = 64
_MAX_DIMS = 4
_MAX_ALIGNMENT = 1 << 20
_DEFAULT_ALIGNMENT = 32
_SMALLEST_PAIR = 8 + 1 + 4 + 1
_SMALLEST_TENSOR_INFO = 8 + 1 + 4 + 8 + 4 + 8


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """One tensor. ``shape`` has the fastest dimension first; ``offset`` counts from the start of the file."""

    name: str
    shape: tuple[int, ...]
    type: GgmlType
    offset: int
    nbytes: int


class GgufFile(MappedFile):
    """An open model file. Use as a context manager, or call ``close``."""

    def __init__(self, path: Path, mapping: mmap.mmap) -> None:
        super().__init__(path, mapping)
        label = f"model file {path.name}"
        self._metadata = Metadata(label)
        cursor = Cursor(self._view, label, position=len(_MAGIC))
        self.version = _read_version(cursor)
        tensor_count = cursor.u64("tensor count")
        pair_count = cursor.u64("metadata count")
        _check_count(cursor, "metadata pairs", pair_count, _SMALLEST_PAIR)
        _check_count(cursor, "tensors", tensor_count, _SMALLEST_TENSOR_INFO)
        self._metadata.read_pairs(cursor, pair_count, key_length_bytes=8)
        _refuse_split(path, self._metadata)
        self.alignment = _alignment(cursor, self._metadata)
        tensors = _read_tensor_infos(cursor, tensor_count, self.alignment)
        self.data_offset = -(-cursor.position // self.alignment) * self.alignment
        self._tensors = _place(cursor, tensors, self.data_offset)

    @classmethod
    def open(cls, path: Path | str) -> GgufFile:
        """Map and validate ``path``; InvalidFileError names the wrong value and the allowed range."""
        path = Path(path)
        return cls(path, map_file(path, "model file", _MAGIC, "GGUF"))

    @property
    def metadata(self) -> Metadata:
        return self._metadata

    @property
    def scalars_only(self) -> dict[str, int | float | bool | str]:
        """Metadata without the arrays: all that a list of models needs."""
        return self._metadata.scalars()

    @property
    def tensors(self) -> Mapping[str, TensorInfo]:
        """Name → TensorInfo in file order."""
        return MappingProxyType(self._tensors)

    @property
    def file_bytes(self) -> int:
        return len(self._view)

    def raw(self, name: str) -> memoryview:
        """The stored bytes of a tensor, without a copy."""
        info = self._tensors[name]
        return self._view[info.offset : info.offset + info.nbytes]

    def dequantized(self, name: str) -> NDArray[np.float32]:
        """float32 with the shape reversed: a weight stored as [K, N] comes as [N, K], a row per output."""
        info = self._tensors[name]
        return dequantize(self.raw(name), info.type, info.shape, name)

    def dequantized_rows(self, name: str, ids: Sequence[int] | NDArray[np.integer]) -> NDArray[np.float32]:
        """Rows ``ids`` as float32 [len(ids), K]."""
        info = self._tensors[name]
        return dequantize_rows(self.raw(name), info.type, info.shape, name, ids)

    def dequantized_part(self, name: str, index: int) -> NDArray[np.float32]:
        """Matrix ``index`` of a tensor [K, N, count], as float32 [N, K]."""
        info = self._tensors[name]
        return dequantize(self._part(name, index), info.type, info.shape[:-1], name)

    def row_chunks(self, name: str, index: int | None = None) -> Iterator[tuple[int, NDArray[np.float32]]]:
        """``(first_row, float32 [rows, K])`` over the whole tensor or its matrix ``index``, a few MiB at a time."""
        info = self._tensors[name]
        if index is None:
            return dequantize_row_chunks(self.raw(name), info.type, info.shape, name)
        return dequantize_row_chunks(self._part(name, index), info.type, info.shape[:-1], name)

    def _part(self, name: str, index: int) -> memoryview:
        info = self._tensors[name]
        size = info.nbytes // info.shape[-1]
        return self.raw(name)[index * size : (index + 1) * size]


def _read_version(cursor: Cursor) -> int:
    version = cursor.u32("version")
    if version in _VERSIONS:
        return version
    if int.from_bytes(version.to_bytes(4, "little"), "big") in (1, *_VERSIONS):
        why = "it is big-endian"
        do = "use the little-endian file"
    elif version == 1:
        why, do = "its format version is 1, which has 32-bit counts", "convert the model again"
    else:
        why, do = (
            f"its format version is {version}, known are 2 and 3",
            "convert the model again or update ork",
        )
    raise InvalidFileError(f"{cursor.label} cannot be read", why=why, do=do)


def _check_count(cursor: Cursor, noun: str, count: int, smallest: int) -> None:
    left = cursor.end - cursor.position
    if count * smallest > left:
        raise cursor.fail(f"it claims {count} {noun}, {left // smallest} would fit in its {cursor.end} bytes")


def _refuse_split(path: Path, metadata: Metadata) -> None:
    count = metadata.get("split.count", 1)
    if isinstance(count, int) and count > 1:
        raise InvalidFileError(
            f"model file {path.name} is one part of {count}",
            why="split models cannot be opened part by part",
            do="join the parts first: llama-gguf-split --merge FIRST_PART OUT.gguf",
        )


def _alignment(cursor: Cursor, metadata: Metadata) -> int:
    value = metadata.get("general.alignment", _DEFAULT_ALIGNMENT)
    if isinstance(value, bool) or not isinstance(value, int) or not 8 <= value <= _MAX_ALIGNMENT or value % 8:
        raise cursor.fail(
            f"general.alignment is {value!r}, allowed are multiples of 8 up to {_MAX_ALIGNMENT}"
        )
    return value


def _tensor_type(cursor: Cursor, name: str, number: int) -> GgmlType:
    try:
        return GgmlType(number)
    except ValueError:
        pass
    if number in REMOVED_TYPES:
        raise InvalidFileError(
            f"{cursor.label} cannot be read",
            why=f"tensor {name} has type {number} ({REMOVED_TYPES[number]}), removed from the format",
            do="convert the model again to a current type such as Q4_0 or Q8_0",
        )
    raise cursor.fail(f"tensor {name} has type {number}, which is not known (0..{max(GgmlType)})")


def _read_tensor_infos(cursor: Cursor, count: int, alignment: int) -> dict[str, TensorInfo]:
    """The infos with offsets still relative to the data section."""
    tensors: dict[str, TensorInfo] = {}
    for index in range(count):
        what = f"tensor {index + 1} of {count}"
        length = cursor.u64(f"name of {what}")
        if not 1 <= length <= _MAX_NAME_BYTES:
            raise cursor.fail(f"the name of {what} is {length} bytes long, allowed are 1..{_MAX_NAME_BYTES}")
        name = cursor.text(length, f"name of {what}")
        if name in tensors:
            raise cursor.fail(f"tensor {name} appears twice")
        dims = cursor.u32(f"dimensions of {name}")
        if not 1 <= dims <= _MAX_DIMS:
            raise cursor.fail(f"tensor {name} has {dims} dimensions, allowed are 1..{_MAX_DIMS}")
        shape = tuple(cursor.u64(f"dimensions of {name}") for _ in range(dims))
        if 0 in shape:
            raise cursor.fail(
                f"tensor {name} has the shape {list(shape)}, every dimension must be at least 1"
            )
        type_ = _tensor_type(cursor, name, cursor.u32(f"type of {name}"))
        offset = cursor.u64(f"offset of {name}")
        if offset % alignment:
            raise cursor.fail(
                f"tensor {name} starts at {offset}, which is not a multiple of the alignment {alignment}"
            )
        try:
            nbytes = tensor_bytes(type_, shape)
        except ValueError as error:
            raise cursor.fail(f"tensor {name}: {error}") from None
        tensors[name] = TensorInfo(name, shape, type_, offset, nbytes)
    return tensors


def _place(cursor: Cursor, tensors: dict[str, TensorInfo], data_offset: int) -> dict[str, TensorInfo]:
    """Absolute offsets, after checking that every tensor lies inside the file and on no other."""
    placed: dict[str, TensorInfo] = {}
    for info in tensors.values():
        start = data_offset + info.offset
        if start + info.nbytes > cursor.end:
            raise cursor.fail(
                f"tensor {info.name} ends at byte {start + info.nbytes}, "
                f"the file has {cursor.end}: it is cut short or its header is wrong"
            )
        placed[info.name] = TensorInfo(info.name, info.shape, info.type, start, info.nbytes)
    previous: TensorInfo | None = None
    for info in sorted(placed.values(), key=lambda tensor: tensor.offset):
        if previous is not None and info.offset < previous.offset + previous.nbytes:
            raise cursor.fail(f"tensors {previous.name} and {info.name} overlap at byte {info.offset}")
        previous = info
    return placed
