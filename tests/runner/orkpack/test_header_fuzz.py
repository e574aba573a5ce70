"""Seeded mutations of everything a reader trusts before the weights: header, table, index, metadata."""

from __future__ import annotations

import dataclasses
import random
import struct
import zlib
from pathlib import Path

import pytest

from orkbench_tui.errors import InvalidFileError
from orkbench_tui.runner.orkpack.index import parse_index
from orkbench_tui.runner.orkpack.layout import HEADER_BYTES, SECTION_BYTES, TENSOR_BYTES, Kind, TensorEntry
from orkbench_tui.runner.orkpack.reader import OrkPack
from orkbench_tui.runner.quantize.pack_model import pack_gguf
from tests.reference.tiny_models import TinyShape, write_tiny_llama

SHAPE = TinyShape(layers=1, embedding=64, heads=2, kv_heads=1, feed_forward=64)


@pytest.fixture(scope="module", params=["w8a8-rot", "w4a8-g32-rot", "nf4-mixed"])
def pack(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fuzz")
    source = write_tiny_llama(folder / "m.gguf", shape=SHAPE)
    pack_gguf(source, folder / "m.orkpack", scheme=request.param, created=0)
    return folder / "m.orkpack"


def _regions(path: Path) -> list[tuple[int, int]]:
    with OrkPack.open(path) as opened:
        found = [(s.offset, s.size) for n, s in opened.sections.items() if n not in ("DATA", "SCAL", "RAWT")]
        table = (opened.header.table_offset, len(opened.sections) * SECTION_BYTES)
    return [(0, HEADER_BYTES), (0, HEADER_BYTES), table, *found]


def _mutated(content: bytes, regions: list[tuple[int, int]], rng: random.Random) -> bytes:
    data = bytearray(content)
    for _ in range(rng.randint(1, 4)):
        start, size = rng.choice(regions)
        at = start + rng.randrange(size)
        width = rng.choice((1, 1, 2, 4, 8))
        data[at : at + width] = rng.choice((rng.randbytes(width), bytes(width), b"\xff" * width))
    if rng.random() < 0.1:
        del data[rng.randrange(len(data)) :]
    elif rng.random() < 0.7:
        # A checksum that holds lets the change through to what lies behind it.
        data[152:156] = bytes(4)
        data[152:156] = struct.pack("<I", zlib.crc32(data[:HEADER_BYTES]))
    return bytes(data[: len(content)])


def _open_many(pack: Path, folder: Path, count: int, seed: int) -> None:
    content, regions, rng = pack.read_bytes(), _regions(pack), random.Random(seed)
    path = folder / "mutated.orkpack"
    refused = 0
    for _ in range(count):
        path.write_bytes(_mutated(content, regions, rng))
        try:
            with OrkPack.open(path) as opened:
                opened.verify("index")
        except InvalidFileError:
            refused += 1
    assert refused > 0.8 * count


def test_mutated_packs_open_or_are_refused(pack: Path, tmp_path: Path) -> None:
    _open_many(pack, tmp_path, 300, seed=1)


def test_index_entries_that_lie_are_refused_or_stay_inside_their_sections(pack: Path) -> None:
    """Every field in turn, past the checksums: what is accepted can be read without leaving the file."""
    with OrkPack.open(pack) as opened:
        sections = opened.sections
        pool, index = (bytes(opened._payload(name)) for name in ("STRS", "TIDX"))
        entries = [
            TensorEntry.unpack(index[at : at + TENSOR_BYTES]) for at in range(0, len(index), TENSOR_BYTES)
        ]
    at = next(i for i, entry in enumerate(entries) if entry.kind == Kind.PACKED and entry.group in (0, 32))
    accepted = 0
    for field in dataclasses.fields(TensorEntry):
        for value in (0, 1, 2, 3, 5, 6, 31, 33, 64, 96, 1 << 20, (1 << 31) - 1):
            changed = dataclasses.replace(entries[at], **{field.name: value})
            data = b"".join(entry.pack() for entry in (*entries[:at], changed, *entries[at + 1 :]))
            try:
                parse_index(data, pool, sections, "pack")
            except InvalidFileError:
                continue
            accepted += 1
            if changed.kind == Kind.PACKED:
                section = sections["SCAL"]
                assert changed.scale_offset + changed.scale_bytes <= section.offset + section.size
                assert changed.group in (0, 2, 32, 64) and changed.K % (changed.group or 1) == 0
                assert changed.data_size == entries[at].data_size
    assert accepted < 12 * len(dataclasses.fields(TensorEntry)) / 2


@pytest.mark.soak
def test_twenty_thousand_mutated_packs(pack: Path, tmp_path: Path) -> None:
    _open_many(pack, tmp_path, 20_000, seed=2)
