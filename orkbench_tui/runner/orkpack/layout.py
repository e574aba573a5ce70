"""Byte layout of an .orkpack file, version 1: fixed-size records and their numbers. No file access here.

    header (256 bytes, region padded to 4096) · sections (each 4096-aligned) · section table · trailer (32)

Everything is little-endian.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import astuple, dataclass
from enum import IntEnum, IntFlag

__all__ = [
    "HEADER_BYTES",
    "MAGIC",
    "PACK_EXTENSION",
    "PAGE",
    "SCALE_ALIGN",
    "SECTION_BYTES",
    "TENSOR_BYTES",
    "TRAILER_BYTES",
    "DType",
    "EntryFlag",
    "Header",
    "HeaderFlag",
    "Kind",
    "ScaleKind",
    "Section",
    "TensorEntry",
    "align",
    "fourcc",
    "pack_trailer",
    "padded32",
    "section_name",
    "unpack_trailer",
]

MAGIC = b"ORKPACK1"
END_MAGIC = b"ORKPEND1"
PACK_EXTENSION = ".orkpack"
MAJOR, MINOR = 1, 0
PAGE = 4096
SCALE_ALIGN = 64
TILE_FORMAT = 1
HEADER_BYTES, SECTION_BYTES, TENSOR_BYTES, TRAILER_BYTES = 256, 64, 192, 32

_HEADER = struct.Struct("<8sHHIQQIIIIIIII32s32s16sQI100s")
_SECTION = struct.Struct("<IIQQIIII16s8s")
_TENSOR = struct.Struct("<IIIIIiiI4QQQQQQ16IQQQ")
_TRAILER = struct.Struct("<8sQIIQ")
assert (_HEADER.size, _SECTION.size) == (HEADER_BYTES, SECTION_BYTES)
assert (_TENSOR.size, _TRAILER.size) == (TENSOR_BYTES, TRAILER_BYTES)


class HeaderFlag(IntFlag):
    PLACEMENT = 1
    FULL_K_COPY = 2
    SELF_CONTAINED = 4
    KEY_VALUES = 8
    TOKENIZER = 16
    FINALISED = 32


class EntryFlag(IntFlag):
    WANT_FULL_K = 1
    NATIVE_LOAD_ONLY = 2
    TIED = 4


class Kind(IntEnum):
    PACKED = 0
    RAW = 1
    EXPERT = 2


class DType(IntEnum):
    I8 = 2
    I4_UNIFORM = 5
    I4_CODEBOOK = 6
    RAW = 100


class ScaleKind(IntEnum):
    NONE = 0
    PER_CHANNEL = 1
    # float32 of every channel, then an int8 multiplier of every group of every channel.
    CHANNEL_AND_GROUP = 3


def align(position: int, to: int) -> int:
    return -(-position // to) * to


def padded32(size: int) -> int:
    """K or N as stored in tiles: rounded up to a multiple of 32."""
    return align(size, 32)


def fourcc(name: str) -> int:
    return int.from_bytes(name.encode("ascii"), "little")


def section_name(type_: int) -> str:
    return type_.to_bytes(4, "little").decode("ascii", "backslashreplace")


@dataclass(frozen=True, slots=True)
class Header:
    """The first 256 bytes. ``soc`` and ``caps`` are 0: int8 tiles are the same for every chip of the family."""

    file_bytes: int
    table_offset: int
    section_count: int
    flags: int
    quant_signature: int
    source_sha256: bytes
    table_digest: bytes
    uuid: bytes
    created: int
    major: int = MAJOR
    minor: int = MINOR
    header_bytes: int = HEADER_BYTES
    section_entry_bytes: int = SECTION_BYTES
    align_log2: int = 12
    soc: int = 0
    caps: int = 0
    tile_format: int = TILE_FORMAT

    def pack(self) -> bytes:
        zero_crc = self._pack(0)
        return self._pack(zlib.crc32(zero_crc))

    def _pack(self, crc: int) -> bytes:
        return _HEADER.pack(
            MAGIC,
            self.major,
            self.minor,
            self.header_bytes,
            self.file_bytes,
            self.table_offset,
            self.section_count,
            self.section_entry_bytes,
            self.flags,
            self.align_log2,
            self.soc,
            self.caps,
            self.tile_format,
            self.quant_signature,
            self.source_sha256,
            self.table_digest,
            self.uuid,
            self.created,
            crc,
            b"",
        )

    @classmethod
    def unpack(cls, data: bytes) -> tuple[Header, bool]:
        """The header and whether its checksum holds. The caller has checked the magic."""
        f = _HEADER.unpack(data)
        header = cls(
            major=f[1],
            minor=f[2],
            header_bytes=f[3],
            file_bytes=f[4],
            table_offset=f[5],
            section_count=f[6],
            section_entry_bytes=f[7],
            flags=f[8],
            align_log2=f[9],
            soc=f[10],
            caps=f[11],
            tile_format=f[12],
            quant_signature=f[13],
            source_sha256=f[14],
            table_digest=f[15],
            uuid=f[16],
            created=f[17],
        )
        # The checksum is over the header with its own four bytes zero.
        return header, f[18] == zlib.crc32(data[:152] + b"\0\0\0\0" + data[156:])


@dataclass(frozen=True, slots=True)
class Section:
    """One row of the section table; ``digest`` is the first half of the payload's sha256."""

    type: int
    required: bool
    offset: int
    size: int
    count: int
    entry_bytes: int
    crc32: int
    digest: bytes

    @property
    def name(self) -> str:
        return section_name(self.type)

    def pack(self) -> bytes:
        return _SECTION.pack(
            self.type,
            int(self.required),
            self.offset,
            self.size,
            self.count,
            self.entry_bytes,
            self.crc32,
            0,
            self.digest,
            b"",
        )

    @classmethod
    def unpack(cls, data: bytes) -> Section:
        type_, flags, offset, size, count, entry_bytes, crc, _, digest, _ = _SECTION.unpack(data)
        return cls(type_, bool(flags & 1), offset, size, count, entry_bytes, crc, digest)


@dataclass(frozen=True, slots=True)
class TensorEntry:
    """One row of the tensor index, fields in file order; ``dims`` are four, unused ones 1."""

    name_offset: int
    name_length: int
    kind: int
    dtype: int
    source_type: int
    layer: int
    expert: int
    n_dims: int
    dim0: int
    dim1: int
    dim2: int
    dim3: int
    data_offset: int
    data_size: int
    bf_offset: int = 0
    bf_size: int = 0
    scale_offset: int = 0
    scale_count: int = 0
    scale_kind: int = ScaleKind.NONE
    K: int = 0
    N: int = 0
    k_slice: int = 0
    nmax: int = 0
    group: int = 0
    rotation: int = 0
    resident_wbits: int = 0
    flags: int = 0
    placement: int = 0
    tied_to: int = 0
    data_crc: int = 0
    bf_crc: int = 0
    scale_crc: int = 0
    reserved0: int = 0
    resident_bb: int = 0
    resident_bf: int = 0
    reserved1: int = 0

    @property
    def dtype_name(self) -> str:
        """``i8``, ``i4_uniform``, ``i4_codebook`` or ``raw``."""
        return DType(self.dtype).name.lower()

    @property
    def scale_bytes(self) -> int:
        """Bytes of scales, with the multipliers of groups where there are any."""
        grouped = self.scale_kind == ScaleKind.CHANNEL_AND_GROUP and self.group
        return 4 * self.scale_count + (self.scale_count * self.K // self.group if grouped else 0)

    @property
    def shape(self) -> tuple[int, ...]:
        """Fastest dimension first, as in the source file."""
        return (self.dim0, self.dim1, self.dim2, self.dim3)[: self.n_dims]

    def pack(self) -> bytes:
        return _TENSOR.pack(*(int(value) for value in astuple(self)))

    @classmethod
    def unpack(cls, data: bytes) -> TensorEntry:
        return cls(*_TENSOR.unpack(data))


def pack_trailer(table_offset: int, section_count: int, table: bytes, file_bytes: int) -> bytes:
    return _TRAILER.pack(END_MAGIC, table_offset, section_count, zlib.crc32(table), file_bytes)


def unpack_trailer(data: bytes) -> tuple[int, int, int, int] | None:
    """(table offset, section count, crc32 of the table, file size), or None where there is no trailer."""
    magic, offset, count, crc, size = _TRAILER.unpack(data)
    return (offset, count, crc, size) if magic == END_MAGIC else None
