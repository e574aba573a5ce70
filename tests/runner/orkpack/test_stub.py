"""Stubs of model files: sparse, the same everywhere else, and never mistaken for the model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from orkbench_tui.errors import InvalidFileError, RefusedError
from orkbench_tui.runner.gguf_file import GgufFile
from orkbench_tui.runner.orkpack.reader import OrkPack
from orkbench_tui.runner.orkpack.stub import check_stub, write_stub
from orkbench_tui.runner.quantize.pack_model import pack_gguf
from tests.conftest import ork
from tests.reference.tiny_models import TinyShape, write_tiny_llama

SHAPE = TinyShape(layers=2, embedding=64, heads=4, kv_heads=2, feed_forward=512)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return write_tiny_llama(tmp_path / "tiny.gguf", quant="Q8_0", shape=SHAPE)


@pytest.fixture
def pack(source: Path, tmp_path: Path) -> Path:
    pack_gguf(source, tmp_path / "tiny.orkpack", created=0)
    return tmp_path / "tiny.orkpack"


def test_packed_weights_are_holes_and_the_rest_is_the_source(
    source: Path, pack: Path, tmp_path: Path
) -> None:
    path = tmp_path / "stub.gguf"
    with OrkPack.open(pack) as opened:
        report = write_stub(source, opened, path)
        assert check_stub(path, opened) == report.holes
    assert path.stat().st_size == source.stat().st_size == report.bytes
    assert path.stat().st_blocks * 512 < source.stat().st_blocks * 512 * 0.8
    with GgufFile.open(source) as model, GgufFile.open(path) as stub:
        assert bytes(model.raw("token_embd.weight")) == bytes(stub.raw("token_embd.weight"))
        assert source.read_bytes()[: model.data_offset] == path.read_bytes()[: model.data_offset]
        assert "token_embd.weight" not in report.holes and "blk.0.ffn_up.weight" in report.holes
        for name, info in model.tensors.items():
            assert stub.tensors[name].offset == info.offset
            same = bytes(model.raw(name)) == bytes(stub.raw(name))
            assert same != (name in report.holes) and (same or not any(stub.raw(name)))


def test_a_tensor_of_zeros_that_the_pack_cannot_serve_is_named(source: Path, tmp_path: Path) -> None:
    other = write_tiny_llama(
        tmp_path / "other.gguf", quant="Q8_0", shape=TinyShape(layers=1, embedding=64, heads=4, kv_heads=2)
    )
    pack_gguf(source, tmp_path / "a.orkpack", created=0)
    pack_gguf(other, tmp_path / "b.orkpack", created=0)
    with OrkPack.open(tmp_path / "a.orkpack") as right, OrkPack.open(tmp_path / "b.orkpack") as wrong:
        write_stub(source, right, tmp_path / "stub.gguf")
        with pytest.raises(InvalidFileError, match="all zeros and cannot be served"):
            check_stub(tmp_path / "stub.gguf", wrong)
        with pytest.raises(InvalidFileError, match="cannot be served"):
            write_stub(source, wrong, tmp_path / "again.gguf")
    assert not list(tmp_path.glob("again*"))


def test_zeros_the_source_had_are_right(source: Path, tmp_path: Path) -> None:
    content = bytearray(source.read_bytes())
    with GgufFile.open(source) as model:
        info = model.tensors["blk.1.ffn_norm.weight"]
    content[info.offset : info.offset + info.nbytes] = bytes(info.nbytes)
    source.write_bytes(content)
    pack_gguf(source, tmp_path / "zero.orkpack", created=0)
    with OrkPack.open(tmp_path / "zero.orkpack") as opened:
        write_stub(source, opened, tmp_path / "stub.gguf")
        assert "blk.1.ffn_norm.weight" in check_stub(tmp_path / "stub.gguf", opened)


def test_a_stub_is_not_packed_and_not_overwritten(source: Path, pack: Path, tmp_path: Path) -> None:
    path = tmp_path / "stub.gguf"
    done = ork("pack", "stub", str(source), str(pack), "--out", str(path))
    assert done.returncode == 0 and "on disk" in done.stdout, done.stderr
    checked = ork("pack", "stub", str(path), str(pack), "--check")
    assert checked.returncode == 0 and "14 tensors come from the pack" in checked.stdout, checked.stdout
    with OrkPack.open(pack) as opened, pytest.raises(RefusedError, match="exists"):
        write_stub(source, opened, path)
    for scheme in ("w8a8-rot", "w4a8-g32-rot"):
        with pytest.raises(InvalidFileError, match="is all zeros"):
            pack_gguf(path, tmp_path / "x.orkpack", scheme=scheme)
    assert not list(tmp_path.glob("x.orkpack*"))
    np.testing.assert_equal(path.stat().st_size, source.stat().st_size)


@pytest.mark.parametrize("quant", ["f32", "w8a8-rot"])
def test_a_stub_without_its_pack_is_not_run(
    source: Path, pack: Path, tmp_path: Path, quant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "stub.gguf"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with OrkPack.open(pack) as opened:
        write_stub(source, opened, path)
    words = ("run", "complete", "a", "--quant", quant, "--max-tokens", "1", "--model")
    done = ork(*words, str(path))
    assert done.returncode == 1 and "is all zeros: a stub of a model" in done.stderr, done.stderr
    assert done.stdout == ""
