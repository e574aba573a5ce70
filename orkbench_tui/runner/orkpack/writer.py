"""Writes a pack as a stream: weights first, then raw tensors, then the index. Nothing is kept in memory but scales.

The file grows as ``NAME.tmp`` and gets its final name only when it is complete, synced and marked finalised.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
import time
import uuid
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from orkbench_tui.runner.gguf_types import GgmlType
from orkbench_tui.runner.gguf_values import Metadata
from orkbench_tui.runner.models.architecture import canonical_key
from orkbench_tui.runner.orkpack.journal import Journal, Written
from orkbench_tui.runner.orkpack.key_values import encode_block, encode_text, is_tokenizer_array
from orkbench_tui.runner.orkpack.layout import (
    MAJOR,
    MINOR,
    PAGE,
    SCALE_ALIGN,
    SECTION_BYTES,
    TENSOR_BYTES,
    TILE_FORMAT,
    TRAILER_BYTES,
    DType,
    EntryFlag,
    Header,
    HeaderFlag,
    Kind,
    ScaleKind,
    Section,
    TensorEntry,
    align,
    pack_trailer,
    padded32,
)
from orkbench_tui.runner.orkpack.pack_file import (
    SectionSink,
    check_overwrite,
    disk_error,
    open_exclusive,
    refuse_folder,
    sync_folder,
)
from orkbench_tui.runner.orkpack.placement_record import placement_of, record_bytes

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["PackWriter"]

_FLAGS = HeaderFlag.PLACEMENT | HeaderFlag.SELF_CONTAINED | HeaderFlag.KEY_VALUES | HeaderFlag.TOKENIZER


class PackWriter:
    """Context manager. Leaving it without ``finish`` (an error, Ctrl-C) removes the unfinished file.

    With ``resumable`` a kill or Ctrl-C leaves it, and the next writer of the same source and scheme goes on
    after the last weight that is whole; an error removes it all the same.

    RefusedError where ``path`` holds a pack of another model or scheme and ``replace`` is not set,
    BusyError where another process writes it, NoMemoryError on a full disk.
    """

    def __init__(
        self,
        path: Path,
        *,
        source_sha256: bytes,
        quant_signature: int,
        replace: bool = False,
        created: int | None = None,
        resumable: bool = False,
    ) -> None:
        """``created`` is a Unix time; 0 (with a derived uuid) makes equal inputs give equal files."""
        self.path = path
        self.temporary = path.with_name(path.name + ".tmp")
        self._source_sha256 = source_sha256
        self._signature = quant_signature
        self._replace = replace
        self._created = int(time.time()) if created is None else created
        refuse_folder(path)
        check_overwrite(path, source_sha256, quant_signature, replace)
        self._handle = open_exclusive(self.temporary, keep=resumable)
        self._journal: Journal | None = None
        if resumable:
            build = f"{source_sha256.hex()} {quant_signature:#x} {MAJOR}.{MINOR}.{TILE_FORMAT}"
            self._journal = Journal(self.temporary.with_name(self.temporary.name + ".journal"), build)
            if not self._journal.resumes:
                self._handle.truncate(0)
        self._finished = False
        self._sections: list[Section] = []
        self._entries: dict[str, TensorEntry] = {}
        self._tied: dict[str, str] = {}
        self._scales: dict[str, bytes] = {}
        self._handle.write(bytes(PAGE))
        self._sink = SectionSink(self._handle, "DATA", required=True)
        self._in_data = True

    def __enter__(self) -> PackWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        resumable = self._journal is not None and isinstance(error, KeyboardInterrupt | SystemExit)
        if not self._finished and not resumable:
            self.temporary.unlink(missing_ok=True)
        if self._journal is not None:
            self._journal.close(remove=not resumable)
        # A full disk may refuse the last buffered bytes once more; the file is gone already.
        with contextlib.suppress(OSError):
            self._handle.close()
        if isinstance(error, OSError):
            raise disk_error(error, self.path) from error

    def add_packed(
        self,
        name: str,
        K: int,
        N: int,
        source_type: GgmlType,
        tiles: Iterable[NDArray[np.int8] | NDArray[np.uint8]],
        scales: NDArray[np.float32],
        tied_to: str | None = None,
        rotation: int = 0,
        dtype: DType = DType.I8,
        multipliers: NDArray[np.int8] | None = None,
    ) -> None:
        """Append a weight: ``tiles`` in order make up the padded [N/32][K/32][32][32] int8 block, or with a
        4-bit ``dtype`` the rows of N · K/2 bytes.

        ``rotation`` is the block each row was rotated by, 0 for none. ``scales`` (float32 [N]) and
        ``multipliers`` (int8 [N, K / G], 4-bit weights in groups) are read after the last tile, so a generator
        may fill them while it yields. Packed weights come before raw tensors.
        """
        if not self._in_data or name in self._entries:
            raise ValueError(f"{name}: packed weights come once each, before raw tensors")
        self._sink.pad(PAGE)
        padded_k, padded_n = padded32(K), padded32(N)
        resident = padded_k * padded_n
        expected = resident if dtype == DType.I8 else N * K // 2
        groups = 0 if multipliers is None else multipliers.shape[1]
        offset = self._sink.position
        crc, size, scale_bytes = self._kept(name, offset, expected)
        if not size:
            for piece in tiles:
                data = memoryview(piece.data).cast("B")
                self._sink.write(data)
                crc = zlib.crc32(data, crc)
                size += len(data)
            scale_bytes = scales.astype("<f4", copy=False).tobytes()
            if multipliers is not None:
                scale_bytes += multipliers.tobytes()
            if self._journal is not None:
                self._handle.flush()
                self._journal.add(Written(name, offset, size, crc, scale_bytes))
        if size != expected or len(scale_bytes) != 4 * N + groups * N:
            raise ValueError(
                f"{name}: {size} bytes of weights and {len(scale_bytes)} of scales for K={K}, N={N}"
            )
        self._scales[name] = scale_bytes
        if tied_to is not None:
            self._tied[name] = tied_to
        self._entries[name] = TensorEntry(
            name_offset=0,
            name_length=len(name.encode()),
            kind=Kind.PACKED,
            dtype=dtype,
            source_type=source_type,
            layer=_layer(name),
            expert=-1,
            n_dims=2,
            dim0=K,
            dim1=N,
            dim2=1,
            dim3=1,
            data_offset=offset,
            data_size=size,
            scale_count=N,
            scale_kind=ScaleKind.CHANNEL_AND_GROUP if groups else ScaleKind.PER_CHANNEL,
            K=K,
            N=N,
            k_slice=padded_k,
            nmax=padded_n,
            group=K // groups if groups else 0,
            rotation=rotation,
            resident_wbits=8,
            flags=EntryFlag.TIED if tied_to else 0,
            data_crc=crc,
            scale_crc=zlib.crc32(scale_bytes),
            resident_bb=align(resident, PAGE),
        )

    def _kept(self, name: str, offset: int, size: int) -> tuple[int, int, bytes]:
        """(checksum, size, scales) of a weight an earlier writer finished; size 0 where there is none."""
        if self._journal is None:
            return 0, 0, b""
        before = self._journal.replayed
        record = self._journal.next(name, offset, size)
        if record is not None:
            data = self._handle.read(size)
            if len(data) == size and zlib.crc32(data) == record.crc:
                self._sink.keep(data)
                return record.crc, size, record.scales
            self._journal.stop(before)
        self._handle.seek(offset)
        return 0, 0, b""

    def add_raw(self, name: str, type_: GgmlType, shape: tuple[int, ...], data: bytes | memoryview) -> None:
        """Append a tensor in its source type. ``shape`` has the fastest dimension first."""
        if name in self._entries:
            raise ValueError(f"{name} was added before")
        if self._in_data:
            self._close_data()
        self._sink.pad(SCALE_ALIGN)
        dims = (*shape, 1, 1, 1)[:4]
        self._entries[name] = TensorEntry(
            name_offset=0,
            name_length=len(name.encode()),
            kind=Kind.RAW,
            dtype=DType.RAW,
            source_type=type_,
            layer=_layer(name),
            expert=-1,
            n_dims=len(shape),
            dim0=dims[0],
            dim1=dims[1],
            dim2=dims[2],
            dim3=dims[3],
            data_offset=self._sink.position,
            data_size=len(data),
            data_crc=zlib.crc32(data),
        )
        self._sink.write(data)

    def finish(self, metadata: Metadata, provenance: Mapping[str, Any], *, scheme: str) -> None:
        """Write the index, sync, mark finalised, rename. ``metadata`` is the source model's, kept whole."""
        if self._in_data:
            self._close_data()
        self._sections.append(self._sink.section(sum(e.kind == Kind.RAW for e in self._entries.values())))
        names = sorted(self._entries, key=canonical_key)
        index = {name: number for number, name in enumerate(names)}
        pool, entries = self._index_entries(names, index)
        packed = [i for i, entry in enumerate(entries) if entry.kind == Kind.PACKED]
        placement = placement_of(entries, names, packed)
        arrays = [key for key in metadata if is_tokenizer_array(metadata, key)]
        plain = [key for key in metadata if key not in set(arrays)]
        meta = encode_block(
            [*((key, *metadata.stored(key)) for key in plain), encode_text("ork.scheme", scheme)]
        )
        tokens = encode_block((key, *metadata.stored(key)) for key in arrays)
        self._section("META", meta, len(plain) + 1)
        self._section("TOKN", tokens, len(arrays))
        self._section("STRS", pool, len(names))
        self._section("TIDX", b"".join(entry.pack() for entry in entries), len(entries), TENSOR_BYTES)
        self._section("PLAC", record_bytes(placement, entries, names, packed), len(packed))
        self._section("PROV", json.dumps(dict(provenance), sort_keys=True).encode(), 1)
        self._close()

    def _close_data(self) -> None:
        self._sink.pad(PAGE)
        self._sections.append(self._sink.section(len(self._entries)))
        sink = SectionSink(self._handle, "SCAL", required=True)
        for name, data in self._scales.items():
            sink.pad(SCALE_ALIGN)
            entry = self._entries[name]
            self._entries[name] = _with(entry, scale_offset=sink.position)
            sink.write(data)
        self._sections.append(sink.section(len(self._scales)))
        self._sink = SectionSink(self._handle, "RAWT", required=True)
        self._in_data = False

    def _index_entries(self, names: list[str], index: Mapping[str, int]) -> tuple[bytes, list[TensorEntry]]:
        pool = bytearray()
        entries: list[TensorEntry] = []
        placed = 0
        for name in names:
            changes: dict[str, int] = {"name_offset": len(pool)}
            if name in self._tied:
                changes["tied_to"] = index[self._tied[name]]
            if self._entries[name].kind == Kind.PACKED:
                changes["placement"] = placed
                placed += 1
            entries.append(_with(self._entries[name], **changes))
            pool += name.encode()
        return bytes(pool), entries

    def _section(self, name: str, data: bytes, count: int, entry_bytes: int = 0) -> None:
        sink = SectionSink(self._handle, name, required=True)
        sink.write(data)
        self._sections.append(sink.section(count, entry_bytes))

    def _close(self) -> None:
        handle = self._handle
        table_offset = align(handle.tell(), SECTION_BYTES)
        table = b"".join(section.pack() for section in self._sections)
        file_bytes = table_offset + len(table) + TRAILER_BYTES
        handle.write(bytes(table_offset - handle.tell()))
        handle.write(table)
        handle.write(pack_trailer(table_offset, len(self._sections), table, file_bytes))
        digest = hashlib.sha256(table + b"".join(section.digest for section in self._sections)).digest()
        identity = uuid.uuid4().bytes if self._created else digest[:16]
        for flags in (_FLAGS, _FLAGS | HeaderFlag.FINALISED):
            header = Header(
                file_bytes=file_bytes,
                table_offset=table_offset,
                section_count=len(self._sections),
                flags=flags,
                quant_signature=self._signature,
                source_sha256=self._source_sha256,
                table_digest=digest,
                uuid=identity,
                created=self._created,
            )
            handle.seek(0)
            handle.write(header.pack())
            handle.flush()
            os.fsync(handle.fileno())
        if self._replace and self.path.exists():
            self.path.replace(self.path.with_name(self.path.name + ".old"))
        handle.truncate(file_bytes)
        self.temporary.replace(self.path)
        self._finished = True
        sync_folder(self.path.parent)


def _with(entry: TensorEntry, **changes: int) -> TensorEntry:
    return dataclasses.replace(entry, **changes)


def _layer(name: str) -> int:
    number = canonical_key(name)[0]
    return number if name.startswith("blk.") else -1
