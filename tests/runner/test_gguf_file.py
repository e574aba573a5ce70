"""The GGUF reader: what it reads agrees with the writer, and nothing malformed gets past it."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from pathlib import Path

import gguf
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from orkbench_tui.errors import InvalidFileError, UsageError
from orkbench_tui.runner.gguf_file import GgufFile
from orkbench_tui.runner.gguf_types import BLOCKS, GgmlType
from tests.reference.tiny_models import TinyShape, random_weights, vocabulary, write_tiny_llama


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    shape = TinyShape(layers=1, embedding=64, heads=2, kv_heads=1, feed_forward=96)
    return write_tiny_llama(tmp_path_factory.mktemp("gguf") / "tiny.gguf", quant="Q8_0", shape=shape)


def _string(text: str | bytes) -> bytes:
    data = text.encode() if isinstance(text, str) else text
    return struct.pack("<Q", len(data)) + data


def _pair(key: str | bytes, type_: int, value: bytes) -> bytes:
    return _string(key) + struct.pack("<I", type_) + value


def _tensor(name: str, shape: tuple[int, ...], type_: int = 0, offset: int = 0) -> bytes:
    dims = b"".join(struct.pack("<Q", dim) for dim in shape)
    return _string(name) + struct.pack("<I", len(shape)) + dims + struct.pack("<IQ", type_, offset)


def _file(
    pairs: list[bytes] | None = None,
    tensors: list[bytes] | None = None,
    data: bytes = bytes(256),
    version: int = 3,
    counts: tuple[int, int] | None = None,
) -> bytes:
    pairs, tensors = pairs or [], tensors or []
    n_tensors, n_pairs = counts or (len(tensors), len(pairs))
    head = b"GGUF" + struct.pack("<IQQ", version, n_tensors, n_pairs) + b"".join(pairs) + b"".join(tensors)
    return head + bytes(-len(head) % 32) + data


def _open(tmp_path: Path, content: bytes) -> GgufFile:
    path = tmp_path / "model.gguf"
    path.write_bytes(content)
    return GgufFile.open(path)


def test_metadata_comes_back_as_written(tiny: Path) -> None:
    tokens, merges = vocabulary()
    with GgufFile.open(tiny) as model:
        assert model.metadata["general.architecture"] == "llama"
        assert model.metadata["llama.embedding_length"] == 64
        assert model.metadata["tokenizer.ggml.add_bos_token"] is False
        assert model.metadata["llama.attention.layer_norm_rms_epsilon"] == pytest.approx(1e-5)
        assert model.metadata["tokenizer.ggml.tokens"] == tokens
        assert model.metadata["tokenizer.ggml.merges"] == merges
        assert model.metadata.array_length("tokenizer.ggml.tokens") == len(tokens)
        types = model.metadata["tokenizer.ggml.token_type"]
        assert isinstance(types, np.ndarray) and types.dtype == np.int32 and types[0] == 3
        assert "llama.no_such_key" not in model.metadata
        assert model.metadata.get("llama.no_such_key") is None


def test_a_listing_sees_scalars_and_no_arrays(tiny: Path) -> None:
    with GgufFile.open(tiny) as model:
        scalars = model.scalars_only
    assert scalars["llama.block_count"] == 1
    assert "tokenizer.ggml.tokens" not in scalars


@pytest.mark.parametrize("quant", ["F32", "F16", "Q8_0", "Q4_1"])
def test_tensors_equal_the_library_conversion(tmp_path: Path, quant: str) -> None:
    shape = TinyShape(layers=1, embedding=64, heads=2, kv_heads=1, feed_forward=96)
    weights = random_weights(shape, seed=3)
    path = write_tiny_llama(tmp_path / "t.gguf", quant=quant, shape=shape, weights=weights)  # type: ignore[arg-type]
    kind = gguf.GGMLQuantizationType[quant]
    with GgufFile.open(path) as model:
        for name, array in weights.items():
            expected = array
            if array.ndim > 1:
                expected = gguf.quants.dequantize(gguf.quants.quantize(array, kind), kind)
            assert model.tensors[name].shape == tuple(reversed(array.shape))
            np.testing.assert_array_equal(model.dequantized(name), expected)
            assert len(model.raw(name)) == model.tensors[name].nbytes
        rows = model.dequantized_rows("token_embd.weight", [7, 0, 7])
        np.testing.assert_array_equal(rows, model.dequantized("token_embd.weight")[[7, 0, 7]])
        with pytest.raises(IndexError):
            model.dequantized_rows("token_embd.weight", [288])


def test_row_chunks_cover_a_large_tensor_in_whole_strips(tmp_path: Path) -> None:
    values = np.arange(3000 * 1024, dtype=np.float32).reshape(3000, 1024)
    writer = gguf.GGUFWriter(tmp_path / "big.gguf", "llama")
    writer.add_tensor("w", values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with GgufFile.open(tmp_path / "big.gguf") as model:
        chunks = list(model.row_chunks("w"))
        assert len(chunks) > 1
        assert all(len(rows) % 32 == 0 for _, rows in chunks[:-1])
        np.testing.assert_array_equal(np.concatenate([rows for _, rows in chunks]), values)
        del chunks


def test_block_sizes_agree_with_the_library() -> None:
    for type_, size in BLOCKS.items():
        assert gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType(int(type_))] == size


def test_closing_with_a_live_view_is_quiet(tiny: Path) -> None:
    model = GgufFile.open(tiny)
    view = np.frombuffer(model.raw("output_norm.weight"), dtype=np.float32)
    model.close()
    model.close()
    assert view.shape == (64,)


def test_a_value_keeps_its_stored_width(tiny: Path) -> None:
    with GgufFile.open(tiny) as model:
        type_, stored = model.metadata.stored("llama.block_count")
        assert (type_.name, bytes(stored)) == ("U32", struct.pack("<I", 1))


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b"", "empty file"),
        (b"GG", "2 bytes, cut short"),
        (b"<!DOCTYPE html><html><body>not found", "HTML page"),
        (b"\n  <HTML>", "HTML page"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n", "Git LFS pointer"),
        (b"PK\x03\x04rest", "zip archive"),
        (b'{"error":"not found"}', "JSON document"),
        (struct.pack("<Q", 40) + b'{"__metadata__":{}}', "safetensors"),
        (b"tjgg" + bytes(60), "before GGUF"),
        (b"ORKPACK1" + bytes(60), "weight pack"),
        (bytes(600), "zeros"),
        (b"# orkbench\nnotes", 'a text file that begins "# orkbench notes"'),
        ("ü".encode() * 400, 'a text file that begins "' + "ü" * 31 + '…"'),
        (b"\x01\x1b[2J", "another kind that begins with the bytes 01 1b 5b 32 4a;"),
        (b"\xff" * 600, "another kind that begins with the bytes ff ff ff ff ff ff ff ff;"),
    ],
)
def test_other_files_are_named_for_what_they_are(tmp_path: Path, content: bytes, kind: str) -> None:
    with pytest.raises(InvalidFileError, match="not a GGUF file") as caught:
        _open(tmp_path, content)
    assert kind in caught.value.line()
    assert caught.value.do


def test_a_missing_file_and_a_folder(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not exist"):
        GgufFile.open(tmp_path / "absent.gguf")
    with pytest.raises(InvalidFileError, match="folder"):
        GgufFile.open(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InvalidFileError, match="device or pipe"):
        GgufFile.open(tmp_path / "pipe")


U32, BOOL, STRING, ARRAY = 4, 7, 8, 9
_ONE_ROW = _tensor("a", (32,))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (_file(version=1), "version is 1"),
        (_file(version=4), "version is 4, known are 2 and 3"),
        (_file(version=0x03000000), "big-endian"),
        (_file(counts=(0, 1 << 60)), "claims 1152921504606846976 metadata pairs"),
        (_file(counts=(1 << 60, 0)), "claims 1152921504606846976 tensors"),
        (_file([_pair("", U32, bytes(4))]), "allowed are 1..65535"),
        (_file([_pair("a", U32, bytes(4))] * 2), "key a appears twice"),
        (_file([_pair(b"k\xff", U32, bytes(4))]), "not UTF-8"),
        (_file([_pair("k\u00e9", U32, bytes(4))]), "printable ASCII"),
        (_file([_pair("k\x1b[2J", U32, bytes(4))]), "printable ASCII"),
        (_file([_pair("k", 13, bytes(4))]), "value type 13"),
        (_file([_pair("k", BOOL, b"\x02")]), "bool with value 2"),
        (_file([_pair("k", STRING, struct.pack("<Q", 1 << 62))]), "needs 4611686018427387904 bytes"),
        (_file([_pair("k", ARRAY, struct.pack("<IQ", ARRAY, 1))]), "array of arrays"),
        (
            _file([_pair("k", ARRAY, struct.pack("<IQ", STRING, 1 << 61))]),
            "claims 2305843009213693952 strings",
        ),
        (_file([_pair("k", ARRAY, struct.pack("<IQQ", STRING, 2, 1 << 63))]), "run past the end"),
        (_file([_pair("k", ARRAY, struct.pack("<IQ", U32, 1 << 61))]), "needs 9223372036854775808 bytes"),
        (_file([_pair("general.alignment", U32, struct.pack("<I", 0))]), "general.alignment is 0"),
        (_file([_pair("general.alignment", U32, struct.pack("<I", 12))]), "general.alignment is 12"),
        (
            _file([_pair("general.alignment", U32, struct.pack("<I", 1 << 31))]),
            "general.alignment is 2147483648",
        ),
        (_file([_pair("general.alignment", STRING, _string("32"))]), "general.alignment is '32'"),
        (_file([_pair("split.count", 2, struct.pack("<H", 3))]), "one part of 3"),
        (_file(tensors=[_tensor("", (32,))]), "0 bytes long"),
        (_file(tensors=[_tensor("n" * 65, (32,))]), "65 bytes long, allowed are 1..64"),
        (_file(tensors=[_ONE_ROW, _ONE_ROW]), "tensor a appears twice"),
        (_file(tensors=[_tensor("a", (1, 1, 1, 1, 1))]), "5 dimensions, allowed are 1..4"),
        (_file(tensors=[_tensor("a", ())]), "0 dimensions"),
        (_file(tensors=[_tensor("a", (32, 0))]), "at least 1"),
        (_file(tensors=[_tensor("a", (1 << 32, 1 << 32))]), "cut short"),
        (_file(tensors=[_tensor("a", (1 << 63, 1 << 63, 1 << 63, 1 << 63))]), "cut short"),
        (_file(tensors=[_tensor("a", (33,), GgmlType.Q8_0)]), "row length 33 is not a multiple of 32"),
        (_file(tensors=[_tensor("a", (32,), 4)]), r"type 4 \(Q4_2\), removed"),
        (_file(tensors=[_tensor("a", (32,), 33)]), r"Q4_0_8_8"),
        (_file(tensors=[_tensor("a", (32,), 200)]), "type 200, which is not known"),
        (
            _file(tensors=[_tensor("a", (32,), 0, 8)]),
            "starts at 8, which is not a multiple of the alignment 32",
        ),
        (_file(tensors=[_tensor("a", (32,), 0, 160)]), "cut short"),
        (_file(tensors=[_ONE_ROW, _tensor("b", (32,), 0, 96)]), "a and b overlap"),
        (_file(tensors=[_tensor("a", (32,), 0, 1 << 63)]), "cut short"),
    ],
)
def test_malformed_files_are_refused_with_the_value(tmp_path: Path, content: bytes, message: str) -> None:
    with pytest.raises(InvalidFileError, match=message) as caught:
        _open(tmp_path, content)
    assert caught.value.do


def test_text_that_is_not_utf8_is_found_when_it_is_looked_up(tmp_path: Path) -> None:
    strings = struct.pack("<IQ", STRING, 2) + _string("fine") + _string(b"\xff")
    flags = struct.pack("<IQ", BOOL, 2) + b"\x01\x07"
    model = _open(
        tmp_path,
        _file([_pair("s", ARRAY, strings), _pair("t", STRING, _string(b"\xfe")), _pair("f", ARRAY, flags)]),
    )
    for key, message in (("s", "string 1 of s"), ("t", "string 0 of t"), ("f", "bool of 7")):
        with pytest.raises(InvalidFileError, match=message):
            model.metadata[key]


def test_version_2_and_a_file_without_tensors(tmp_path: Path) -> None:
    model = _open(tmp_path, _file([_pair("k", U32, struct.pack("<I", 7))], version=2, data=b""))
    assert model.metadata["k"] == 7 and not model.tensors


def test_a_type_without_a_conversion_is_named(tmp_path: Path) -> None:
    model = _open(tmp_path, _file(tensors=[_tensor("a", (256,), GgmlType.Q8_K)], data=bytes(292)))
    with pytest.raises(InvalidFileError, match="Q8_K"):
        model.dequantized("a")


def _touch_everything(model: GgufFile) -> None:
    for key in model.metadata:
        model.metadata[key]
    for name in model.tensors:
        model.raw(name)


def _only_typed_errors(action: Callable[[], None]) -> None:
    try:
        action()
    except InvalidFileError as error:
        assert error.what and error.why


def _header_bytes(tiny: Path) -> int:
    with GgufFile.open(tiny) as model:
        return model.data_offset


_FUZZ = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@_FUZZ
@given(data=st.data())
def test_cut_short_anywhere(tiny: Path, tmp_path: Path, data: st.DataObject) -> None:
    content = tiny.read_bytes()
    size = data.draw(st.integers(0, len(content) - 1))
    path = tmp_path / "cut.gguf"
    path.write_bytes(content[:size])
    with pytest.raises(InvalidFileError):
        GgufFile.open(path)


@_FUZZ
@given(data=st.data())
def test_damaged_headers_raise_nothing_but_typed_errors(
    tiny: Path, tmp_path: Path, data: st.DataObject
) -> None:
    content = bytearray(tiny.read_bytes())
    header = _header_bytes(tiny)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, header - 1))
        content[at] = data.draw(st.integers(0, 255))
    path = tmp_path / "flipped.gguf"
    path.write_bytes(content)

    def look() -> None:
        with GgufFile.open(path) as model:
            _touch_everything(model)

    _only_typed_errors(look)


@_FUZZ
@given(tail=st.binary(max_size=400))
def test_random_bytes_after_the_magic(tmp_path: Path, tail: bytes) -> None:
    path = tmp_path / "random.gguf"
    path.write_bytes(b"GGUF" + struct.pack("<I", 3) + tail)
    _only_typed_errors(lambda: _touch_everything(GgufFile.open(path)))
