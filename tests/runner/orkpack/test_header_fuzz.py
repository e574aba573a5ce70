"""Seeded mutations of everything a reader trusts before the weights: header, table, index, metadata."""

from __future__ import annotations

import random
import struct
import zlib
from pathlib import Path

import pytest

from orkbench_tui.errors import InvalidFileError
from orkbench_tui.runner.orkpack.layout import HEADER_BYTES, SECTION_BYTES
from orkbench_tui.runner.orkpack.reader import OrkPack
from orkbench_tui.runner.quantize.pack_model import pack_gguf
from tests.reference.tiny_models import TinyShape, write_tiny_llama

SHAPE = TinyShape(layers=1, embedding=64, heads=2, kv_heads=1, feed_forward=64)


@pytest.fixture(scope="module")
def pack(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fuzz")
    pack_gguf(write_tiny_llama(folder / "m.gguf", shape=SHAPE), folder / "m.orkpack", created=0)
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


@pytest.mark.soak
def test_twenty_thousand_mutated_packs(pack: Path, tmp_path: Path) -> None:
    _open_many(pack, tmp_path, 20_000, seed=2)
