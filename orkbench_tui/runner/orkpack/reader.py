"""Opens a pack. The cost is that of the index: weights are mapped and not read until somebody computes with them."""

from __future__ import annotations

import hashlib
import json
import mmap
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from orkbench_tui.errors import InvalidFileError, NoMemoryError
from orkbench_tui.runner.ggml_data import dequantize, dequantize_rows
from orkbench_tui.runner.gguf_types import GgmlType
from orkbench_tui.runner.gguf_values import Metadata
from orkbench_tui.runner.mapped_file import MappedFile, map_file
from orkbench_tui.runner.models.architecture import Architecture, split_expert_name
from orkbench_tui.runner.models.read_architecture import read_architecture
from orkbench_tui.runner.orkpack.index import check_header, damaged, parse_index, parse_table
from orkbench_tui.runner.orkpack.key_values import read_blocks
from orkbench_tui.runner.orkpack.layout import (
    HEADER_BYTES,
    MAGIC,
    SECTION_BYTES,
    TRAILER_BYTES,
    DType,
    EntryFlag,
    Header,
    Kind,
    Section,
    TensorEntry,
    unpack_trailer,
)
from orkbench_tui.runner.orkpack.packed_tensor import PackedTensor
from orkbench_tui.runner.orkpack.placement import Placement, Policy
from orkbench_tui.runner.orkpack.placement_record import (
    POLICY_LAYER_GROUPS,
    parse_head,
    placement_of,
    record_bytes,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["OrkPack", "PackedTensor", "VerifyLevel"]

VerifyLevel = Literal["header", "table", "index", "full"]
_READ_AT_OPEN = ("META", "TOKN", "STRS", "TIDX", "PLAC", "PROV")


class OrkPack(MappedFile):
    """An open pack. Use as a context manager, or call ``close``."""

    def __init__(self, path: Path, mapping: mmap.mmap) -> None:
        super().__init__(path, mapping)
        self.label = f"weight pack {path.name}"
        self.header = self._read_header()
        self.sections = self._read_table()
        for name in _READ_AT_OPEN:
            self._check_crc(self.sections[name])
        self._names, self._entries = parse_index(
            bytes(self._payload("TIDX")), bytes(self._payload("STRS")), self.sections, self.label
        )
        self._by_name = dict(zip(self._names, self._entries, strict=True))
        self._placement = self._checked_placement()
        self._metadata = read_blocks(self.label, (self._payload("META"), self._payload("TOKN")))

    @classmethod
    def open(cls, path: Path | str) -> OrkPack:
        """Map ``path`` and check header, table and index; InvalidFileError says what does not hold."""
        path = Path(path)
        return cls(path, map_file(path, "weight pack", MAGIC, "weight pack"))

    @property
    def metadata(self) -> Metadata:
        """The source model's metadata, tokenizer included, and the pack's own keys under ``ork.``."""
        return self._metadata

    @property
    def tensors(self) -> Mapping[str, TensorEntry]:
        """Name → index entry in canonical order."""
        return MappingProxyType(self._by_name)

    @property
    def packed_names(self) -> tuple[str, ...]:
        return tuple(name for name, entry in self._by_name.items() if entry.kind == Kind.PACKED)

    @property
    def raw_names(self) -> tuple[str, ...]:
        return tuple(name for name, entry in self._by_name.items() if entry.kind == Kind.RAW)

    @property
    def scheme(self) -> str:
        """Name of the quantization scheme, such as ``w8a8``."""
        return str(self._metadata.get("ork.scheme", ""))

    @property
    def file_bytes(self) -> int:
        return len(self._view)

    @property
    def placement(self) -> Placement:
        """The IOMMU domain of every packed weight."""
        return self._placement

    @cached_property
    def domain_of(self) -> Mapping[str, int]:
        """The IOMMU domain of each packed weight."""
        return MappingProxyType(self._placement.domain_of)

    @property
    def tier_counts(self) -> dict[str, int]:
        """How many packed weights are stored in each type."""
        found = Counter(self._by_name[name].dtype_name for name in self.packed_names)
        return dict(sorted(found.items()))

    @cached_property
    def provenance(self) -> dict[str, Any]:
        try:
            found = json.loads(bytes(self._payload("PROV")))
        except ValueError as error:
            raise damaged(self.label, "its provenance is not JSON") from error
        return found if isinstance(found, dict) else {}

    @cached_property
    def architecture(self) -> Architecture:
        """The model's architecture; InvalidFileError where index and metadata disagree."""
        shapes = {name: e.shape for name, e in self._by_name.items() if not e.flags & EntryFlag.TIED}
        architecture = read_architecture(self._metadata, _joined(shapes), self.raw, self.path.name)
        wanted = {linear.name for linear in architecture.all_linears()}
        if set(self.packed_names) != wanted:
            odd = sorted(wanted.symmetric_difference(self.packed_names))[0]
            raise damaged(
                self.label, f"tensor {odd} is not packed as architecture {architecture.name} needs it"
            )
        return architecture

    def packed(self, name: str) -> PackedTensor:
        """A weight as views of the file; KeyError where there is none of that name."""
        import numpy as np

        entry = self._entry(name, Kind.PACKED)
        count, at = entry.scale_count, entry.scale_offset
        scales = np.frombuffer(self._view, dtype="<f4", count=count, offset=at)
        if not bool(np.all(scales > 0)) or not bool(np.all(np.isfinite(scales))):
            raise damaged(self.label, f"tensor {name} has a scale that is not a positive number")
        data = np.frombuffer(self._view, dtype=np.uint8, count=entry.data_size, offset=entry.data_offset)
        multipliers = None
        if entry.group:
            groups = entry.K // entry.group
            own = np.frombuffer(self._view, dtype=np.int8, count=count * groups, offset=at + 4 * count)
            multipliers = own.reshape(count, groups)
        return PackedTensor(
            name, entry.K, entry.N, data, scales, entry.rotation, DType(entry.dtype), multipliers
        )

    def raw(self, name: str) -> NDArray[np.float32]:
        """A tensor that is not packed, as float32 with the shape reversed (rows first)."""
        entry = self._entry(name, Kind.RAW)
        return dequantize(self._data(entry), GgmlType(entry.source_type), entry.shape, name)

    def raw_rows(self, name: str, ids: Sequence[int] | NDArray[np.integer]) -> NDArray[np.float32]:
        """Rows ``ids`` of a tensor that is not packed, float32 [len(ids), K]; IndexError outside 0..N-1."""
        entry = self._entry(name, Kind.RAW)
        return dequantize_rows(self._data(entry), GgmlType(entry.source_type), entry.shape, name, ids)

    def verify(self, level: VerifyLevel = "full") -> int:
        """Check up to ``level`` and return the bytes that were checked; InvalidFileError names the first damage.

        ``header``, ``table`` and ``index`` hold for every pack that could be opened; ``full`` reads everything.
        """
        checked = HEADER_BYTES
        if level in ("table", "index", "full"):
            checked += len(self.sections) * SECTION_BYTES
        if level in ("index", "full"):
            checked += sum(self._check_crc(self.sections[name]) for name in _READ_AT_OPEN)
        if level == "full":
            for name, entry in self._by_name.items():
                self._check_tensor(name, entry)
            rest = [section for name, section in self.sections.items() if name not in _READ_AT_OPEN]
            checked += sum(self._check_crc(section) for section in rest)
            self._check_digests()
        return checked

    def _entry(self, name: str, kind: Kind) -> TensorEntry:
        entry = self._by_name[name]
        if entry.kind != kind:
            raise KeyError(name)
        return entry

    def _data(self, entry: TensorEntry) -> memoryview:
        return self._view[entry.data_offset : entry.data_offset + entry.data_size]

    def _payload(self, name: str) -> memoryview:
        section = self.sections[name]
        return self._view[section.offset : section.offset + section.size]

    def _read_header(self) -> Header:
        if len(self._view) < HEADER_BYTES + TRAILER_BYTES:
            raise damaged(self.label, f"it has {len(self._view)} bytes")
        header, crc_holds = Header.unpack(bytes(self._view[:HEADER_BYTES]))
        check_header(header, crc_holds, len(self._view), self.label)
        return header

    def _read_table(self) -> dict[str, Section]:
        header = self.header
        table = bytes(self._view[header.table_offset :][: header.section_count * SECTION_BYTES])
        trailer = unpack_trailer(bytes(self._view[-TRAILER_BYTES:]))
        expected = (header.table_offset, header.section_count, zlib.crc32(table), len(self._view))
        if trailer != expected:
            raise damaged(self.label, "its last bytes are not the end of this pack")
        digests = b"".join(
            Section.unpack(table[at : at + SECTION_BYTES]).digest
            for at in range(0, len(table), SECTION_BYTES)
        )
        if hashlib.sha256(table + digests).digest() != header.table_digest:
            raise damaged(self.label, "the checksum of its section table does not match")
        return parse_table(table, len(self._view), self.label)

    def _check_crc(self, section: Section) -> int:
        if zlib.crc32(self._payload(section.name)) != section.crc32:
            raise damaged(self.label, f"the checksum of section {section.name} does not match")
        return section.size

    def _check_tensor(self, name: str, entry: TensorEntry) -> None:
        if zlib.crc32(self._data(entry)) != entry.data_crc:
            raise damaged(self.label, f"the checksum of tensor {name} does not match")
        scales = self._view[entry.scale_offset : entry.scale_offset + entry.scale_bytes]
        if entry.scale_count and zlib.crc32(scales) != entry.scale_crc:
            raise damaged(self.label, f"the checksum of the scales of {name} does not match")

    def _check_digests(self) -> None:
        for name, section in self.sections.items():
            if hashlib.sha256(self._payload(name)).digest()[:16] != section.digest:
                raise damaged(self.label, f"the digest of section {name} does not match")

    def _checked_placement(self) -> Placement:
        stored = bytes(self._payload("PLAC"))
        try:
            head = parse_head(stored)
        except ValueError as error:
            raise damaged(self.label, f"its placement has {error}") from None
        if head.policy != POLICY_LAYER_GROUPS:
            raise InvalidFileError(
                f"{self.label} uses placement policy {head.policy}",
                why=f"known is {POLICY_LAYER_GROUPS}",
                do="update ork or make the pack again",
            )
        packed = [i for i, entry in enumerate(self._entries) if entry.kind == Kind.PACKED]
        wrong = damaged(self.label, "its placement is not what its policy gives for these weights")
        try:
            ceiling = min(head.ceiling_bytes, Policy().ceiling_bytes)
            placement = placement_of(self._entries, self._names, packed, ceiling)
        except NoMemoryError as error:
            raise wrong from error
        if record_bytes(placement, self._entries, self._names, packed) != stored:
            raise wrong
        return placement


def _joined(shapes: Mapping[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
    """Shapes as the model file has them: the weights of a layer's experts are one tensor there."""
    joined: dict[str, tuple[int, ...]] = {}
    for name, shape in shapes.items():
        tensor, expert = split_expert_name(name)
        # Numbers that leave one out, or shapes that differ, keep their own name and are refused as unknown.
        if expert is None or (expert and joined.get(tensor) != (*shape, expert)):
            joined[name] = shape
        else:
            joined[tensor] = (*shape, expert + 1)
    return joined
