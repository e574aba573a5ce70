"""Metadata values of GGUF files and weight packs: bounds-checked reading, arrays decoded when asked for.

A vocabulary is hundreds of thousands of strings. Opening a file steps over them (lengths only) and
decodes a list the first time it is looked up.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from orkbench_tui.errors import InvalidFileError
from orkbench_tui.runner.gguf_types import SCALAR_FORMATS, ValueType

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Value: TypeAlias = "int | float | bool | str | list[str] | NDArray[np.generic]"

__all__ = ["Cursor", "Metadata", "ValueSpan", "read_span"]

_U32 = struct.Struct("<I")
_U64 = struct.Struct("<Q")
MAX_KEY_BYTES = 65535


class Cursor:
    """A position in a buffer. Every read checks the end first and names what was being read."""

    __slots__ = ("buffer", "end", "label", "position")

    def __init__(self, buffer: memoryview, label: str, position: int = 0, end: int | None = None) -> None:
        self.buffer = buffer
        self.label = label
        self.position = position
        self.end = len(buffer) if end is None else end

    def fail(self, why: str) -> InvalidFileError:
        return InvalidFileError(f"{self.label} is damaged", why=why, do="download or copy the file again")

    def need(self, size: int, what: str) -> int:
        """Claim ``size`` bytes and return where they start."""
        start = self.position
        if size > self.end - start:
            raise self.fail(
                f"{what} at byte {start} needs {size} bytes, "
                f"{self.end - start} are left: the file is cut short or its header is wrong"
            )
        self.position = start + size
        return start

    def u32(self, what: str) -> int:
        value: int = _U32.unpack_from(self.buffer, self.need(4, what))[0]
        return value

    def u64(self, what: str) -> int:
        value: int = _U64.unpack_from(self.buffer, self.need(8, what))[0]
        return value

    def text(self, size: int, what: str) -> str:
        start = self.need(size, what)
        try:
            return str(self.buffer[start : start + size], "utf-8")
        except UnicodeDecodeError as error:
            raise self.fail(f"{what} at byte {start} is not UTF-8") from error


@dataclass(frozen=True, slots=True)
class ValueSpan:
    """Where one value lies: ``start..end`` covers it as stored, without key and type.

    For arrays ``element`` is the element type, ``count`` the length and ``first`` the first element's byte.
    """

    type: ValueType
    start: int
    end: int
    element: ValueType | None = None
    count: int = 0
    first: int = 0


def _value_type(cursor: Cursor, number: int, what: str) -> ValueType:
    try:
        return ValueType(number)
    except ValueError:
        raise cursor.fail(f"{what} has value type {number}, known are 0..12") from None


def _skip_strings(cursor: Cursor, count: int, what: str) -> None:
    unpack, buffer, end, position = _U64.unpack_from, cursor.buffer, cursor.end, cursor.position
    last = end - 8
    for _ in range(count):
        if position > last:
            break
        position += 8 + unpack(buffer, position)[0]
    else:
        if position <= end:
            cursor.position = position
            return
    raise cursor.fail(
        f"{what}: its {count} strings run past the end at byte {end}: "
        f"the file is cut short or its header is wrong"
    )


def read_span(cursor: Cursor, what: str) -> ValueSpan:
    """Step over a type and its value; InvalidFileError for bad types, nesting, bad bools or an early end."""
    type_ = _value_type(cursor, cursor.u32(f"type of {what}"), what)
    start = cursor.position
    if type_ is ValueType.STRING:
        cursor.need(cursor.u64(f"length of {what}"), what)
        return ValueSpan(type_, start, cursor.position)
    if type_ is not ValueType.ARRAY:
        cursor.need(struct.calcsize("<" + SCALAR_FORMATS[type_]), what)
        if type_ is ValueType.BOOL and cursor.buffer[start] > 1:
            raise cursor.fail(f"{what} is a bool with value {cursor.buffer[start]}, allowed are 0 and 1")
        return ValueSpan(type_, start, cursor.position)
    element = _value_type(cursor, cursor.u32(f"element type of {what}"), what)
    count = cursor.u64(f"length of {what}")
    first = cursor.position
    if element is ValueType.ARRAY:
        raise cursor.fail(f"{what} is an array of arrays, which no model uses")
    if element is ValueType.STRING:
        if count * 8 > cursor.end - first:
            raise cursor.fail(
                f"{what} claims {count} strings in the {cursor.end - first} bytes that are left"
            )
        _skip_strings(cursor, count, what)
    else:
        cursor.need(count * struct.calcsize("<" + SCALAR_FORMATS[element]), what)
    return ValueSpan(type_, start, cursor.position, element, count, first)


class Metadata(Mapping[str, "Value"]):
    """Key → int, float, bool, str, list[str] or numpy array; decoded on first use.

    Looking up a value whose text is not UTF-8 raises InvalidFileError.
    """

    def __init__(self, label: str) -> None:
        self._label = label
        self._spans: dict[str, tuple[memoryview, ValueSpan]] = {}
        self._decoded: dict[str, Value] = {}

    def read_pairs(self, cursor: Cursor, count: int, key_length_bytes: int) -> None:
        """Take ``count`` pairs at the cursor; key lengths are u64 in GGUF and u32 in packs."""
        for index in range(count):
            what = f"key {index + 1} of {count}"
            length = cursor.u64(what) if key_length_bytes == 8 else cursor.u32(what)
            if not 1 <= length <= MAX_KEY_BYTES:
                raise cursor.fail(f"{what} is {length} bytes long, allowed are 1..{MAX_KEY_BYTES}")
            key = cursor.text(length, what)
            if not key.isascii() or not key.isprintable():
                raise cursor.fail(f"{what} is {key!r}, allowed is printable ASCII")
            if key in self._spans:
                raise cursor.fail(f"key {key} appears twice")
            self._spans[key] = (cursor.buffer, read_span(cursor, key))

    def __getitem__(self, key: str) -> Value:
        if key not in self._decoded:
            buffer, span = self._spans[key]
            self._decoded[key] = _decode(buffer, span, key, self._label)
        return self._decoded[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._spans)

    def __len__(self) -> int:
        return len(self._spans)

    def __contains__(self, key: object) -> bool:
        return key in self._spans

    def span(self, key: str) -> ValueSpan:
        return self._spans[key][1]

    def stored(self, key: str) -> tuple[ValueType, memoryview]:
        """Type and bytes of a value as stored: copying these keeps every type and width."""
        buffer, span = self._spans[key]
        return span.type, buffer[span.start : span.end]

    def array_length(self, key: str) -> int:
        """Elements of an array without decoding it; KeyError where ``key`` is absent or no array."""
        span = self._spans[key][1]
        if span.type is not ValueType.ARRAY:
            raise KeyError(key)
        return span.count

    def scalars(self) -> dict[str, int | float | bool | str]:
        """Everything that is not an array: what a list of models needs."""
        found: dict[str, int | float | bool | str] = {}
        for key, (_, span) in self._spans.items():
            if span.type is not ValueType.ARRAY:
                value = self[key]
                if isinstance(value, int | float | str):
                    found[key] = value
        return found

    def release(self) -> None:
        """Drop the views of the file; decoded values stay, others are gone."""
        self._spans = {}


def _decode(buffer: memoryview, span: ValueSpan, key: str, label: str) -> Value:
    if span.type is ValueType.STRING:
        return _decode_strings(buffer, span.start, 1, key, label)[0]
    if span.type is not ValueType.ARRAY:
        value: int | float = struct.unpack_from("<" + SCALAR_FORMATS[span.type], buffer, span.start)[0]
        return bool(value) if span.type is ValueType.BOOL else value
    assert span.element is not None
    if span.element is ValueType.STRING:
        return _decode_strings(buffer, span.first, span.count, key, label)
    import numpy as np

    dtype = np.dtype("<" + _NUMPY_CODES[span.element])
    values = np.frombuffer(buffer[span.first : span.end], dtype=dtype).copy()
    if span.element is ValueType.BOOL:
        if values.size and values.max() > 1:
            raise InvalidFileError(
                f"{label} is damaged",
                why=f"{key} holds a bool of {values.max()}, allowed are 0 and 1",
                do="download or copy the file again",
            )
        return values.astype(np.bool_)
    return values


_NUMPY_CODES = {
    ValueType.U8: "u1",
    ValueType.I8: "i1",
    ValueType.U16: "u2",
    ValueType.I16: "i2",
    ValueType.U32: "u4",
    ValueType.I32: "i4",
    ValueType.F32: "f4",
    ValueType.BOOL: "u1",
    ValueType.U64: "u8",
    ValueType.I64: "i8",
    ValueType.F64: "f8",
}


def _decode_strings(buffer: memoryview, first: int, count: int, key: str, label: str) -> list[str]:
    unpack = _U64.unpack_from
    out: list[str] = []
    position = first
    try:
        for _ in range(count):
            start = position + 8
            position = start + unpack(buffer, position)[0]
            out.append(str(buffer[start:position], "utf-8"))
    except UnicodeDecodeError as error:
        raise InvalidFileError(
            f"{label} is damaged",
            why=f"string {len(out)} of {key} is not UTF-8",
            do="download or copy the file again",
        ) from error
    return out
