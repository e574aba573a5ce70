"""The weight pack: what goes in comes out, opening reads no weights, and damage is always a typed error."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from orkbench_tui.errors import BusyError, InvalidFileError, NoMemoryError, OrkError, RefusedError
from orkbench_tui.runner.gguf_file import GgufFile
from orkbench_tui.runner.gguf_types import GgmlType
from orkbench_tui.runner.gguf_values import Metadata
from orkbench_tui.runner.models.architecture import canonical_key
from orkbench_tui.runner.models.read_architecture import architecture_of
from orkbench_tui.runner.orkpack.layout import (
    HEADER_BYTES,
    SECTION_BYTES,
    Header,
    HeaderFlag,
    Kind,
    TensorEntry,
)
from orkbench_tui.runner.orkpack.placement_record import chunks_of
from orkbench_tui.runner.orkpack.reader import OrkPack
from orkbench_tui.runner.orkpack.schemes import SCHEMES
from orkbench_tui.runner.orkpack.writer import PackWriter
from orkbench_tui.runner.quantize.pack_model import pack_gguf
from tests.reference import w8a8
from tests.reference.tiny_models import TinyShape, write_tiny_llama

SHAPE = TinyShape(layers=2, embedding=64, heads=4, kv_heads=2, feed_forward=96)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_llama(tmp_path_factory.mktemp("source") / "tiny.gguf", quant="Q8_0", shape=SHAPE)


@pytest.fixture(scope="module")
def pack_path(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pack") / "tiny.orkpack"
    pack_gguf(source, path, created=0)
    return path


def test_weights_are_the_oracle_quantization_of_the_source(source: Path, pack_path: Path) -> None:
    with GgufFile.open(source) as model, OrkPack.open(pack_path) as pack:
        for linear in architecture_of(model).all_linears():
            name = "token_embd.weight" if linear.name == "output.weight" else linear.name
            codes, scales = w8a8.quantize(w8a8.hadamard(model.dequantized(name)))
            tensor = pack.packed(linear.name)
            assert (tensor.K, tensor.N, tensor.rotation) == (
                linear.K,
                linear.N,
                min(linear.K & -linear.K, 128),
            )
            assert tensor.tiles.dtype == np.int8 and tensor.tiles.ndim == 1
            np.testing.assert_array_equal(tensor.tiles, w8a8.tile(codes))
            np.testing.assert_array_equal(tensor.scales, scales)
            del tensor


def test_a_pack_stands_alone(source: Path, pack_path: Path) -> None:
    with GgufFile.open(source) as model, OrkPack.open(pack_path) as pack:
        assert pack.architecture == architecture_of(model)
        assert set(pack.metadata) == set(model.metadata) | {"ork.scheme"}
        for key in model.metadata:
            assert pack.metadata.stored(key) == model.metadata.stored(key)
        assert pack.metadata["tokenizer.ggml.tokens"] == model.metadata["tokenizer.ggml.tokens"]
        for name in pack.raw_names:
            np.testing.assert_array_equal(pack.raw(name), model.dequantized(name))
        rows = pack.raw_rows("token_embd.weight", [287, 0])
        np.testing.assert_array_equal(rows, model.dequantized("token_embd.weight")[[287, 0]])
        assert pack.scheme == "w8a8-rot"
        assert pack.provenance["source"] == "tiny.gguf"
        assert pack.provenance["source_sha256"] == pack.header.source_sha256.hex()


def test_an_untied_head_is_packed_once_and_not_kept_raw(tmp_path: Path) -> None:
    shape = TinyShape(
        layers=1, embedding=64, heads=2, kv_heads=2, feed_forward=64, tied_head=False, rope_factors=True
    )
    pack_gguf(write_tiny_llama(tmp_path / "m.gguf", shape=shape), tmp_path / "m.orkpack")
    with OrkPack.open(tmp_path / "m.orkpack") as pack:
        assert not pack.architecture.tied_head
        assert "output.weight" in pack.packed_names and "output.weight" not in pack.raw_names
        assert pack.architecture.rope.factors is not None


def test_a_tied_head_points_at_its_embedding(pack_path: Path) -> None:
    with OrkPack.open(pack_path) as pack:
        head = pack.tensors["output.weight"]
        assert list(pack.tensors)[head.tied_to] == "token_embd.weight"
        assert head.source_type == GgmlType.Q8_0
        with pytest.raises(KeyError):
            pack.packed("token_embd.weight")
        with pytest.raises(KeyError):
            pack.raw("output.weight")


def test_bytes_lie_where_the_format_says(pack_path: Path) -> None:
    content = pack_path.read_bytes()
    assert content[:8] == b"ORKPACK1"
    assert struct.unpack_from("<HHI", content, 8) == (1, 0, 256)
    file_bytes, table_offset, sections, entry_bytes, flags = struct.unpack_from("<QQIII", content, 16)
    assert (file_bytes, entry_bytes) == (len(content), 64)
    assert flags == 1 | 4 | 8 | 16 | 32
    crc = struct.unpack_from("<I", content, 152)[0]
    assert crc == zlib.crc32(content[:152] + bytes(4) + content[156:256])
    assert content[-32:-24] == b"ORKPEND1"
    assert struct.unpack_from("<Q", content, len(content) - 24)[0] == table_offset
    names = [content[at : at + 4] for at in range(table_offset, table_offset + sections * 64, 64)]
    assert set(names) == {b"META", b"TOKN", b"STRS", b"TIDX", b"PLAC", b"DATA", b"SCAL", b"RAWT", b"PROV"}
    for at in range(table_offset, table_offset + sections * 64, 64):
        offset, size = struct.unpack_from("<QQ", content, at + 8)
        assert offset % 4096 == 0
        assert struct.unpack_from("<I", content, at + 32)[0] == zlib.crc32(content[offset : offset + size])


def test_index_order_alignment_and_placement(pack_path: Path) -> None:
    with OrkPack.open(pack_path) as pack:
        names = list(pack.tensors)
        assert names == sorted(names, key=canonical_key)
        packed = [entry for entry in pack.tensors.values() if entry.kind == Kind.PACKED]
        assert all(entry.data_offset % 4096 == 0 and entry.scale_offset % 64 == 0 for entry in packed)
        assert [entry.placement for entry in packed] == list(range(len(packed)))
        assert pack.tensors["blk.1.attn_q.weight"].layer == 1
        assert pack.tensors["output.weight"].layer == -1


def test_equal_models_give_equal_packs(source: Path, pack_path: Path, tmp_path: Path) -> None:
    pack_gguf(source, tmp_path / "again.orkpack", created=0)
    assert (tmp_path / "again.orkpack").read_bytes() == pack_path.read_bytes()


def test_verify_levels_grow(pack_path: Path) -> None:
    with OrkPack.open(pack_path) as pack:
        checked = [pack.verify(level) for level in ("header", "table", "index", "full")]
    assert checked == sorted(checked) and len(set(checked)) == 4


def test_full_verification_finds_a_flipped_weight_and_opening_does_not_read_it(
    pack_path: Path, tmp_path: Path
) -> None:
    with OrkPack.open(pack_path) as pack:
        at = {name: pack.tensors[name].data_offset for name in ("blk.0.attn_q.weight", "output_norm.weight")}
        scale_at = pack.tensors["blk.1.ffn_up.weight"].scale_offset
    for name, offset in [*at.items(), ("scales of blk.1.ffn_up.weight", scale_at)]:
        damaged = bytearray(pack_path.read_bytes())
        damaged[offset] ^= 1
        path = tmp_path / "flipped.orkpack"
        path.write_bytes(damaged)
        with OrkPack.open(path) as pack:
            pack.verify("index")
            with pytest.raises(InvalidFileError, match=name):
                pack.verify("full")


def test_an_impossible_scale_is_refused_where_it_would_be_used(pack_path: Path, tmp_path: Path) -> None:
    with OrkPack.open(pack_path) as pack:
        at = pack.tensors["blk.0.attn_q.weight"].scale_offset
    damaged = bytearray(pack_path.read_bytes())
    damaged[at : at + 4] = struct.pack("<f", float("nan"))
    (tmp_path / "nan.orkpack").write_bytes(damaged)
    with OrkPack.open(tmp_path / "nan.orkpack") as pack, pytest.raises(InvalidFileError, match="scale"):
        pack.packed("blk.0.attn_q.weight")


def _resealed(content: bytes, change: Callable[[bytearray], None]) -> bytes:
    """``content`` with its header changed and its checksum made right again."""
    data = bytearray(content)
    change(data)
    data[152:156] = bytes(4)
    data[152:156] = struct.pack("<I", zlib.crc32(data[:256]))
    return bytes(data)


@pytest.mark.parametrize(
    ("offset", "value", "message"),
    [
        (8, struct.pack("<H", 2), "version 2"),
        (16, struct.pack("<Q", 99), "its header says 99"),
        (24, struct.pack("<Q", 1 << 60), "section table"),
        (32, struct.pack("<I", 0), "0 sections"),
        (32, struct.pack("<I", 1 << 31), "allowed are 1..64"),
        (40, struct.pack("<I", 1 | 4 | 8 | 16), "never finished"),
        (96, bytes(32), "checksum of its section table"),
    ],
)
def test_headers_that_lie(pack_path: Path, tmp_path: Path, offset: int, value: bytes, message: str) -> None:
    def change(data: bytearray) -> None:
        data[offset : offset + len(value)] = value

    path = tmp_path / "lie.orkpack"
    path.write_bytes(_resealed(pack_path.read_bytes(), change))
    with pytest.raises(InvalidFileError, match=message):
        OrkPack.open(path)


def test_a_newer_minor_version_opens(pack_path: Path, tmp_path: Path) -> None:
    def change(data: bytearray) -> None:
        data[10:12] = struct.pack("<H", 7)

    (tmp_path / "newer.orkpack").write_bytes(_resealed(pack_path.read_bytes(), change))
    with OrkPack.open(tmp_path / "newer.orkpack") as pack:
        assert pack.header.minor == 7


def _boundaries(content: bytes) -> list[int]:
    header, _ = Header.unpack(content[:HEADER_BYTES])
    found = [0, 8, HEADER_BYTES, 4096, header.table_offset, len(content) - 32, len(content) - 1]
    for number in range(header.section_count):
        at = header.table_offset + number * SECTION_BYTES
        offset, size = struct.unpack_from("<QQ", content, at + 8)
        found += [offset, offset + size, offset + size // 2]
    return sorted({at for at in found if at < len(content)})


def test_cut_short_at_every_boundary(pack_path: Path, tmp_path: Path) -> None:
    content = pack_path.read_bytes()
    path = tmp_path / "cut.orkpack"
    for size in _boundaries(content):
        path.write_bytes(content[:size])
        with pytest.raises(InvalidFileError):
            OrkPack.open(path)


_FUZZ = settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@_FUZZ
@given(data=st.data())
def test_flipped_bits_anywhere_raise_nothing_but_typed_errors(
    pack_path: Path, tmp_path: Path, data: st.DataObject
) -> None:
    content = bytearray(pack_path.read_bytes())
    with OrkPack.open(pack_path) as pack:
        index = [
            (s.offset, s.size) for name, s in pack.sections.items() if name not in ("DATA", "SCAL", "RAWT")
        ]
        table = (pack.header.table_offset, len(pack.sections) * SECTION_BYTES)
    regions = [(0, HEADER_BYTES), table, (len(content) - 32, 32), *index]
    start, size = data.draw(st.sampled_from(regions))
    content[start + data.draw(st.integers(0, size - 1))] ^= 1 << data.draw(st.integers(0, 7))
    path = tmp_path / "flipped.orkpack"
    path.write_bytes(content)
    with pytest.raises(InvalidFileError):
        OrkPack.open(path)


@_FUZZ
@given(data=st.data())
def test_a_resealed_index_with_wrong_numbers_is_still_refused_or_harmless(
    pack_path: Path, tmp_path: Path, data: st.DataObject
) -> None:
    """Checksums only find accidents: an index that was changed on purpose must not reach outside the file."""
    content = bytearray(pack_path.read_bytes())
    with OrkPack.open(pack_path) as pack:
        index = pack.sections["TIDX"]
        names = list(pack.sections)
        table = pack.header.table_offset
    at = index.offset + data.draw(st.integers(0, index.size - 1))
    content[at] ^= data.draw(st.integers(1, 255))
    _reseal_section(content, table, names.index("TIDX"), index.offset, index.size, len(names))
    path = tmp_path / "forged.orkpack"
    path.write_bytes(content)
    try:
        with OrkPack.open(path) as pack:
            for name in pack.packed_names:
                assert pack.packed(name).tiles.size >= 1024
            for name in pack.raw_names:
                pack.raw(name)
            assert pack.architecture.layers == 2
    except OrkError as error:
        assert isinstance(error, InvalidFileError)


def _reseal_section(content: bytearray, table: int, number: int, offset: int, size: int, count: int) -> None:
    import hashlib

    payload = bytes(content[offset : offset + size])
    at = table + number * SECTION_BYTES
    content[at + 32 : at + 36] = struct.pack("<I", zlib.crc32(payload))
    content[at + 40 : at + 56] = hashlib.sha256(payload).digest()[:16]
    rows = bytes(content[table : table + count * SECTION_BYTES])
    digests = b"".join(rows[n * 64 + 40 : n * 64 + 56] for n in range(count))
    content[96:128] = hashlib.sha256(rows + digests).digest()
    content[-16:-8] = struct.pack("<II", count, zlib.crc32(rows))
    content[152:156] = bytes(4)
    content[152:156] = struct.pack("<I", zlib.crc32(bytes(content[:256])))


def test_another_model_is_not_overwritten_unless_asked(pack_path: Path, tmp_path: Path) -> None:
    path = tmp_path / "held.orkpack"
    path.write_bytes(pack_path.read_bytes())
    other = write_tiny_llama(tmp_path / "other.gguf", seed=9, shape=SHAPE)
    with pytest.raises(RefusedError, match="another model"):
        pack_gguf(other, path)
    assert path.read_bytes() == pack_path.read_bytes()
    pack_gguf(other, path, replace=True)
    assert (tmp_path / "held.orkpack.old").read_bytes() == pack_path.read_bytes()
    with OrkPack.open(path) as pack:
        assert pack.provenance["source"] == "other.gguf"


def test_something_else_of_that_name_is_not_overwritten(source: Path, tmp_path: Path) -> None:
    path = tmp_path / "notes.orkpack"
    path.write_text("my notes")
    with pytest.raises(RefusedError, match="not a weight pack"):
        pack_gguf(source, path)
    assert path.read_text() == "my notes"


def _writer(path: Path) -> PackWriter:
    return PackWriter(path, source_sha256=bytes(32), quant_signature=SCHEMES["w8a8"].signature)


def test_an_error_half_way_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), _writer(tmp_path / "p.orkpack") as writer:
        writer.add_packed("w", 32, 32, GgmlType.F32, [np.zeros(1024, np.int8)], np.ones(32, np.float32))
        raise KeyboardInterrupt
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_a_memory_error_and_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(NoMemoryError, match="no space"), _writer(tmp_path / "p.orkpack"):
        raise OSError(28, "No space left on device")
    assert list(tmp_path.iterdir()) == []


def test_two_writers_of_one_pack(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), _writer(tmp_path / "p.orkpack"):
        with pytest.raises(BusyError):
            _writer(tmp_path / "p.orkpack")
        raise RuntimeError


def test_an_unfinished_file_is_never_under_the_final_name(source: Path, tmp_path: Path) -> None:
    seen: list[set[str]] = []
    path = tmp_path / "p.orkpack"
    pack_gguf(
        source, path, lambda what, done, total: seen.append({entry.name for entry in tmp_path.iterdir()})
    )
    assert all("p.orkpack" not in names for names in seen) and any("p.orkpack.tmp" in names for names in seen)
    assert [entry.name for entry in tmp_path.iterdir()] == ["p.orkpack"]


def test_a_pack_of_nothing_but_a_wide_weight_is_cut_into_legal_chunks() -> None:
    size = 49152 * 576
    entry = TensorEntry(
        name_offset=0, name_length=1, kind=0, dtype=2, source_type=8, layer=-1, expert=-1, n_dims=2,
        dim0=576, dim1=49152, dim2=1, dim3=1, data_offset=4096, data_size=size, K=576, N=49152,
        k_slice=576, nmax=49152, resident_bb=size,
    )  # fmt: skip
    chunks = chunks_of(entry)
    assert sum(chunk.size for chunk in chunks) == size
    assert all(chunk.size <= 16 << 20 and chunk.size % 4096 == 0 for chunk in chunks)
    assert [chunk.tile_first * 1024 + 4096 for chunk in chunks] == [chunk.file_offset for chunk in chunks]
    assert all(chunk.tile_first % (576 // 32) == 0 for chunk in chunks)


def test_header_round_trip() -> None:
    header = Header(
        file_bytes=5, table_offset=6, section_count=7, flags=HeaderFlag.FINALISED, quant_signature=0x38,
        source_sha256=bytes(range(32)), table_digest=bytes(range(32, 64)), uuid=bytes(16), created=8,
    )  # fmt: skip
    assert Header.unpack(header.pack()) == (header, True)
    assert Header.unpack(header.pack()[:-1] + b"\x01")[1] is False


def test_metadata_without_tokenizer_arrays(tmp_path: Path) -> None:
    with _writer(tmp_path / "p.orkpack") as writer:
        writer.add_packed("w", 33, 1, GgmlType.F32, [np.zeros(2048, np.int8)], np.ones(1, np.float32))
        writer.add_raw("v", GgmlType.F32, (3,), np.arange(3, dtype=np.float32).tobytes())
        writer.finish(Metadata("none"), {}, scheme="w8a8")
    with OrkPack.open(tmp_path / "p.orkpack") as pack:
        assert (pack.packed("w").K, pack.packed("w").N, pack.packed("w").tiles.size) == (33, 1, 2048)
        np.testing.assert_array_equal(pack.raw("v"), [0, 1, 2])
        with pytest.raises(InvalidFileError, match=r"no general\.architecture"):
            _ = pack.architecture


def _killed_while_building(source: Path, path: Path, weights: int, scheme: str = "w8a8-rot") -> None:
    """A build that a kill ends after some weights: no cleaning up takes place."""
    import os
    import subprocess
    import sys

    code = (
        "import os, sys; from pathlib import Path; from orkbench_tui.runner.quantize.pack_model import pack_gguf\n"
        "seen = [0]\n"
        "def show(what, done, total):\n"
        "    seen[0] += what.startswith('packing')\n"
        f"    if seen[0] == {weights}: os.kill(os.getpid(), 9)\n"
        f"pack_gguf(Path(sys.argv[1]), Path(sys.argv[2]), show, scheme={scheme!r}, resumable=True, created=0)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(source), str(path)], env=os.environ, timeout=60)
    assert done.returncode == -9


@pytest.mark.parametrize("scheme", ["w4a8-g32-rot", "nf4-mixed"])
def test_a_killed_four_bit_build_keeps_multipliers_too(source: Path, tmp_path: Path, scheme: str) -> None:
    pack_gguf(source, tmp_path / "whole.orkpack", scheme=scheme, created=0)
    path = tmp_path / "p.orkpack"
    _killed_while_building(source, path, 9, scheme)
    assert (tmp_path / "p.orkpack.tmp.journal").stat().st_size > 1000
    pack_gguf(source, path, scheme=scheme, resumable=True, created=0)
    assert path.read_bytes() == (tmp_path / "whole.orkpack").read_bytes()


@pytest.mark.parametrize("weights", [1, 9, 15])
def test_a_killed_build_goes_on_and_gives_the_same_bytes(
    source: Path, pack_path: Path, tmp_path: Path, weights: int
) -> None:
    path = tmp_path / "p.orkpack"
    _killed_while_building(source, path, weights)
    assert not path.exists() and (tmp_path / "p.orkpack.tmp.journal").exists()
    work: list[str] = []
    real = GgufFile.row_chunks

    def counted(self: GgufFile, name: str, *rest: int | None):  # type: ignore[no-untyped-def]
        work.append(name)
        return real(self, name, *rest)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(GgufFile, "row_chunks", counted)
        pack_gguf(source, path, resumable=True, created=0)
    assert path.read_bytes() == pack_path.read_bytes()
    assert len([name for name in work if "norm" not in name and name != "token_embd.weight"]) <= 15 - weights
    assert [entry.name for entry in tmp_path.iterdir()] == ["p.orkpack"]


@pytest.mark.parametrize("damage", ["tiles", "journal", "missing", "other"])
def test_what_a_killed_build_left_damaged_is_made_again(
    source: Path, pack_path: Path, tmp_path: Path, damage: str
) -> None:
    path = tmp_path / "p.orkpack"
    _killed_while_building(source, path, 9)
    journal, unfinished = tmp_path / "p.orkpack.tmp.journal", tmp_path / "p.orkpack.tmp"
    if damage == "tiles":
        content = bytearray(unfinished.read_bytes())
        content[30000] ^= 1
        unfinished.write_bytes(content)
    elif damage == "journal":
        journal.write_bytes(journal.read_bytes()[:-7])
    elif damage == "missing":
        unfinished.unlink()
    else:
        journal.write_bytes(b'{"build": "another"}\n')
    pack_gguf(source, path, resumable=True, created=0)
    assert path.read_bytes() == pack_path.read_bytes()


def test_ctrl_c_keeps_a_resumable_build_and_an_error_does_not(source: Path, tmp_path: Path) -> None:
    def stop(error: type[BaseException]) -> None:
        def show(what: str, done: int, total: int) -> None:
            if what.startswith("packing blk.1"):
                raise error

        with pytest.raises(error):
            pack_gguf(source, tmp_path / "p.orkpack", show, resumable=True)

    stop(KeyboardInterrupt)
    assert (tmp_path / "p.orkpack.tmp").exists()
    stop(ValueError)
    assert list(tmp_path.iterdir()) == []
