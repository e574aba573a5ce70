"""The index of a pack, checked entry by entry against the sections it points into."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise

from orkbench_tui.errors import InvalidFileError
from orkbench_tui.runner.gguf_types import GgmlType, tensor_bytes
from orkbench_tui.runner.models.architecture import canonical_key
from orkbench_tui.runner.orkpack.layout import (
    PAGE,
    SCALE_ALIGN,
    SECTION_BYTES,
    TENSOR_BYTES,
    DType,
    EntryFlag,
    Header,
    HeaderFlag,
    Kind,
    ScaleKind,
    Section,
    TensorEntry,
    align,
    padded32,
)

__all__ = ["KNOWN_SECTIONS", "check_header", "damaged", "parse_index", "parse_table"]

KNOWN_SECTIONS = ("DATA", "SCAL", "RAWT", "META", "TOKN", "STRS", "TIDX", "PLAC", "PROV", "TUNE")
NEEDED_SECTIONS = KNOWN_SECTIONS[:-1]
_STORED = (DType.I8, DType.I4_UNIFORM, DType.I4_CODEBOOK)
_MAX_SECTIONS = 64
_MAX_NAME_BYTES = 64


def damaged(label: str, why: str) -> InvalidFileError:
    return InvalidFileError(
        f"{label} is damaged", why=why, do="copy it again, or make it again: ork pack build MODEL"
    )


def check_header(header: Header, crc_holds: bool, size: int, label: str) -> None:
    """InvalidFileError where the header is damaged, of another version, unfinished or of another size."""
    if not crc_holds:
        raise damaged(label, "the checksum of its header does not match")
    if header.major != 1:
        raise InvalidFileError(
            f"{label} has version {header.major}", why="known is 1", do="update ork or make it again"
        )
    if not header.flags & HeaderFlag.FINALISED:
        raise damaged(label, "it was never finished")
    if header.file_bytes != size:
        raise damaged(label, f"it has {size} bytes, its header says {header.file_bytes}")
    if header.section_entry_bytes != SECTION_BYTES or not 1 <= header.section_count <= _MAX_SECTIONS:
        raise damaged(
            label,
            f"{header.section_count} sections of {header.section_entry_bytes} bytes, "
            f"allowed are 1..{_MAX_SECTIONS} of {SECTION_BYTES}",
        )
    if header.table_offset + header.section_count * SECTION_BYTES > size:
        raise damaged(label, f"its section table at {header.table_offset} lies outside its {size} bytes")


def parse_table(table: bytes, size: int, label: str) -> dict[str, Section]:
    """Name → Section; every section inside the file, aligned, known if required, none twice, none on another."""
    sections: dict[str, Section] = {}
    for at in range(0, len(table), SECTION_BYTES):
        section = Section.unpack(table[at : at + SECTION_BYTES])
        if section.name not in KNOWN_SECTIONS:
            if section.required:
                raise InvalidFileError(
                    f"{label} needs section {section.name!r}",
                    why="this version does not know it",
                    do="update ork",
                )
            continue
        if section.name in sections:
            raise damaged(label, f"section {section.name} appears twice")
        if section.offset % PAGE or section.offset + section.size > size:
            raise damaged(
                label, f"section {section.name} at {section.offset}, {section.size} bytes, lies wrong"
            )
        sections[section.name] = section
    for name in NEEDED_SECTIONS:
        if name not in sections:
            raise damaged(label, f"section {name} is missing")
    ordered = sorted(sections.values(), key=lambda section: section.offset)
    for before, after in pairwise(ordered):
        if before.offset + before.size > after.offset:
            raise damaged(label, f"sections {before.name} and {after.name} overlap")
    return sections


def parse_index(
    index: bytes, pool: bytes, sections: Mapping[str, Section], label: str
) -> tuple[list[str], list[TensorEntry]]:
    """Names and entries in file order, which must be the canonical one."""
    if len(index) % TENSOR_BYTES:
        raise damaged(label, f"its tensor index has {len(index)} bytes, not a multiple of {TENSOR_BYTES}")
    names: list[str] = []
    entries: list[TensorEntry] = []
    for at in range(0, len(index), TENSOR_BYTES):
        entry = TensorEntry.unpack(index[at : at + TENSOR_BYTES])
        name = _name(entry, pool, label)
        _check_entry(entry, name, sections, label)
        names.append(name)
        entries.append(entry)
    if len(set(names)) != len(names):
        raise damaged(label, "its tensor index names a tensor twice")
    if names != sorted(names, key=canonical_key):
        raise damaged(label, "its tensor index is not in canonical order")
    for name, entry in zip(names, entries, strict=True):
        if entry.flags & EntryFlag.TIED and entry.tied_to >= len(entries):
            raise damaged(label, f"tensor {name} is tied to entry {entry.tied_to} of {len(entries)}")
    return names, entries


def _name(entry: TensorEntry, pool: bytes, label: str) -> str:
    end = entry.name_offset + entry.name_length
    if not 1 <= entry.name_length <= _MAX_NAME_BYTES or end > len(pool):
        raise damaged(label, f"a tensor's name lies at {entry.name_offset}..{end} of {len(pool)} bytes")
    try:
        return pool[entry.name_offset : end].decode("utf-8")
    except UnicodeDecodeError:
        raise damaged(label, f"the tensor name at {entry.name_offset} is not UTF-8") from None


def _inside(offset: int, size: int, section: Section) -> bool:
    return section.offset <= offset and offset + size <= section.offset + section.size


def _check_entry(entry: TensorEntry, name: str, sections: Mapping[str, Section], label: str) -> None:
    if not 1 <= entry.n_dims <= 4 or 0 in entry.shape:
        raise damaged(label, f"tensor {name} has the dimensions {list(entry.shape)}")
    checks: Sequence[tuple[bool, str]]
    if entry.kind == Kind.PACKED and entry.dtype in _STORED:
        resident = padded32(entry.K) * padded32(entry.N)
        size = resident if entry.dtype == DType.I8 else entry.K * entry.N // 2
        checks = (
            (
                entry.shape == (entry.K, entry.N),
                f"is {entry.K} by {entry.N}, its dimensions are {list(entry.shape)}",
            ),
            (entry.data_size == size, f"has {entry.data_size} bytes of weights, {size} expected"),
            (entry.k_slice == padded32(entry.K), f"is cut into K slices of {entry.k_slice}"),
            (entry.nmax == padded32(entry.N), f"is cut into N slices of {entry.nmax}"),
            (entry.bf_size == 0, "is stored twice"),
            (_groups_fit(entry), f"has groups of {entry.group}"),
            (
                entry.rotation == 0 or _is_block(entry.rotation, entry.K),
                f"is rotated in blocks of {entry.rotation}",
            ),
            (entry.resident_bb == align(resident, PAGE), f"claims {entry.resident_bb} resident bytes"),
            (entry.resident_wbits == 8, f"has {entry.resident_wbits} bits a weight"),
            (_inside(entry.data_offset, size, sections["DATA"]), "lies outside section DATA"),
            (entry.data_offset % PAGE == 0, f"starts at {entry.data_offset}, not on a page"),
            (
                entry.scale_kind == (ScaleKind.CHANNEL_AND_GROUP if entry.group else ScaleKind.PER_CHANNEL)
                and entry.scale_count == entry.N,
                "has the wrong scales",
            ),
            (
                _inside(entry.scale_offset, entry.scale_bytes, sections["SCAL"]),
                "has scales outside section SCAL",
            ),
            (entry.scale_offset % SCALE_ALIGN == 0, f"has scales at {entry.scale_offset}, not aligned"),
        )
    elif (entry.kind, entry.dtype) == (Kind.RAW, DType.RAW):
        checks = (
            (
                entry.data_size == _raw_bytes(entry),
                f"has {entry.data_size} bytes, its shape and type need others",
            ),
            (_inside(entry.data_offset, entry.data_size, sections["RAWT"]), "lies outside section RAWT"),
            (entry.data_offset % SCALE_ALIGN == 0, f"starts at {entry.data_offset}, not aligned"),
        )
    else:
        raise InvalidFileError(
            f"{label} holds tensor {name} of kind {entry.kind}, type {entry.dtype}",
            why="this version reads int8 and 4-bit weights and raw tensors",
            do="update ork or make the pack again",
        )
    for holds, why in checks:
        if not holds:
            raise damaged(label, f"tensor {name} {why}")


def _groups_fit(entry: TensorEntry) -> bool:
    """int8 weights have no groups; 4-bit ones whole tiles of inputs, in groups of whole bytes."""
    if entry.dtype == DType.I8:
        return entry.group == 0
    grouped = entry.group == 0 or (entry.group % 2 == 0 and entry.K % entry.group == 0)
    return grouped and entry.K % 32 == 0


def _is_block(rotation: int, K: int) -> bool:
    """Whether rows of ``K`` values may have been rotated in blocks of ``rotation``."""
    return rotation > 1 and rotation & (rotation - 1) == 0 and K % rotation == 0


def _raw_bytes(entry: TensorEntry) -> float:
    try:
        return tensor_bytes(GgmlType(entry.source_type), entry.shape)
    except ValueError:
        return math.nan
