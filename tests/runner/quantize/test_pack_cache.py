"""Packs as a cache: found the second time, made again when damaged, never half-written, one maker at a time."""

from __future__ import annotations

import collections
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from orkbench_tui.errors import DeniedError, InvalidFileError, NoMemoryError, UsageError
from orkbench_tui.runner.orkpack.reader import OrkPack
from orkbench_tui.runner.quantize import pack_cache, source_digest
from orkbench_tui.runner.quantize.pack_cache import packed_model
from orkbench_tui.runner.quantize.pack_model import pack_bytes, pack_gguf
from orkbench_tui.runner.quantize.source_digest import remembered_sha256
from tests.reference.tiny_families import TINY_FAMILIES, family_weights, write_tiny_family
from tests.reference.tiny_models import TinyShape, random_weights, write_tiny_llama

SHAPE = TinyShape(layers=1, embedding=64, heads=2, kv_heads=1, feed_forward=64)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return write_tiny_llama(tmp_path / "tiny.gguf", shape=SHAPE)


def _names(folder: Path) -> list[str]:
    return sorted(
        entry.name for entry in folder.iterdir() if entry.suffix not in (".digest", ".lock", ".checked")
    )


def test_the_second_time_nothing_is_made(model: Path, tmp_path: Path) -> None:
    steps: list[str] = []
    first = packed_model(model, tmp_path / "packs", lambda what, done, total: steps.append(what))
    assert any(step.startswith("packing") for step in steps)
    before = first.stat()
    steps.clear()
    second = packed_model(model, tmp_path / "packs", lambda what, done, total: steps.append(what))
    assert second == first and steps == [] and second.stat().st_mtime_ns == before.st_mtime_ns
    assert _names(tmp_path / "packs") == [first.name]


def test_another_model_under_the_same_name_gets_its_own_pack(model: Path, tmp_path: Path) -> None:
    first = packed_model(model, tmp_path / "packs")
    write_tiny_llama(model, seed=5, shape=SHAPE)
    second = packed_model(model, tmp_path / "packs")
    assert first != second and first.exists()
    with OrkPack.open(second) as pack, OrkPack.open(first) as old:
        assert pack.header.source_sha256 != old.header.source_sha256


@pytest.mark.parametrize("damage", ["cut", "flip", "empty", "html"])
def test_a_damaged_pack_is_made_again(model: Path, tmp_path: Path, damage: str) -> None:
    path = packed_model(model, tmp_path / "packs")
    content = path.read_bytes()
    changed = {
        "cut": content[: len(content) // 2],
        "flip": bytes([content[0], *content[1:20], content[20] ^ 8, *content[21:]]),
        "empty": b"",
        "html": b"<html>",
    }[damage]
    path.write_bytes(changed)
    assert packed_model(model, tmp_path / "packs") == path
    with OrkPack.open(path) as pack:
        assert pack.verify("full") > 0


def test_an_abandoned_temporary_file_is_no_obstacle(model: Path, tmp_path: Path) -> None:
    path = packed_model(model, tmp_path / "packs")
    path.rename(path.with_name(path.name + ".tmp"))
    assert packed_model(model, tmp_path / "packs") == path
    assert _names(tmp_path / "packs") == [path.name]


def test_no_space_is_said_before_anything_is_written(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = collections.namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(10, 9, 1))
    with pytest.raises(NoMemoryError, match="no space"):
        packed_model(model, tmp_path / "packs")
    assert _names(tmp_path / "packs") == []


def test_a_disk_that_fills_up_leaves_nothing(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(NoMemoryError, match="no space left"):
        packed_model(model, tmp_path / "packs")
    assert _names(tmp_path / "packs") == []


def test_a_weight_that_is_no_number_leaves_nothing(tmp_path: Path) -> None:
    weights = random_weights(SHAPE)
    weights["blk.0.ffn_down.weight"][3, 3] = np.nan
    model = write_tiny_llama(tmp_path / "nan.gguf", shape=SHAPE, weights=weights)
    with pytest.raises(InvalidFileError, match=r"blk\.0\.ffn_down\.weight cannot be quantized"):
        packed_model(model, tmp_path / "packs")
    assert _names(tmp_path / "packs") == []


@pytest.mark.parametrize("scheme", ["w8a8-rot", "w4a8-g32-rot"])
def test_a_weight_is_called_what_the_model_file_calls_it(tmp_path: Path, scheme: str) -> None:
    weights = random_weights(SHAPE)
    # The head is the embedding's tensor, and the file has no output.weight.
    weights["token_embd.weight"][7, 3] = np.inf
    model = write_tiny_llama(tmp_path / "inf.gguf", shape=SHAPE, weights=weights)
    with pytest.raises(InvalidFileError, match=r"tensor token_embd\.weight cannot be quantized: row 7"):
        packed_model(model, tmp_path / "packs", scheme=scheme)
    weights = family_weights(TINY_FAMILIES["qwen3moe"])
    weights["blk.1.ffn_up_exps.weight"][5, 2, 0] = np.nan
    model = write_tiny_family(tmp_path / "moe.gguf", "qwen3moe", weights=weights)
    with pytest.raises(InvalidFileError, match=r"tensor blk\.1\.ffn_up_exps\.weight, expert 5, cannot"):
        packed_model(model, tmp_path / "packs", scheme=scheme)


def test_a_norm_that_is_no_number_is_refused_too(tmp_path: Path) -> None:
    weights = random_weights(SHAPE)
    weights["output_norm.weight"][5] = np.inf
    model = write_tiny_llama(tmp_path / "inf.gguf", shape=SHAPE, weights=weights)
    with pytest.raises(InvalidFileError, match=r"output_norm\.weight"):
        packed_model(model, tmp_path / "packs")
    assert _names(tmp_path / "packs") == []


@pytest.mark.parametrize("tied", [True, False])
def test_the_space_estimate_is_just_above_the_size(tmp_path: Path, tied: bool) -> None:
    shape = TinyShape(layers=3, embedding=64, heads=2, kv_heads=1, feed_forward=96, tied_head=tied)
    model = write_tiny_llama(tmp_path / "m.gguf", quant="Q8_0", shape=shape)
    size = packed_model(model, tmp_path / "packs").stat().st_size
    assert size <= pack_bytes(model) <= size + (1 << 18)


def test_a_missing_model(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not exist"):
        packed_model(tmp_path / "absent.gguf", tmp_path / "packs")


def test_two_processes_make_one_pack(model: Path, tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path\n"
        "from orkbench_tui.runner.quantize.pack_cache import packed_model\n"
        "made = []\n"
        "packed_model(Path(sys.argv[1]), Path(sys.argv[2]), lambda what, done, total: made.append(what))\n"
        "print(sum(what.startswith('packing') for what in made))\n"
    )
    command = [sys.executable, "-c", code, str(model), str(tmp_path / "packs")]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    counts = [int(process.communicate(timeout=60)[0]) for process in running]
    assert [process.returncode for process in running] == [0, 0, 0]
    assert sorted(bool(count) for count in counts) == [False, False, True]
    assert len(_names(tmp_path / "packs")) == 1


def test_the_digest_is_remembered_until_the_file_changes(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = remembered_sha256(model, tmp_path / "packs")
    calls: list[Path] = []
    real = source_digest.sha256_of
    monkeypatch.setattr(
        source_digest, "sha256_of", lambda path, progress=None: calls.append(path) or real(path)
    )
    assert remembered_sha256(model, tmp_path / "packs") == first and calls == []
    with model.open("r+b") as handle:
        handle.seek(-1, os.SEEK_END)
        handle.write(b"\x55")
    assert remembered_sha256(model, tmp_path / "packs") != first and calls == [model]


def test_a_damaged_note_is_ignored(model: Path, tmp_path: Path) -> None:
    first = remembered_sha256(model, tmp_path / "packs")
    for note in (tmp_path / "packs").glob("*.digest"):
        note.write_text('{"stamp": 3')
    assert remembered_sha256(model, tmp_path / "packs") == first


def test_the_name_tells_model_scheme_and_revision(model: Path) -> None:
    name = pack_cache.pack_name(model, bytes(range(32)))
    assert name == "tiny-0001020304050607-w8a8-rot-r3.orkpack"


def test_what_is_no_model_leaves_nothing_behind(tmp_path: Path) -> None:
    text = tmp_path / "t.txt"
    text.write_text("# orkbench\n")
    with pytest.raises(InvalidFileError, match="not a GGUF file"):
        pack_cache.packed_model(text, tmp_path / "packs")
    assert not (tmp_path / "packs").exists()


def test_damaged_weights_are_found_and_the_pack_is_made_again(tmp_path: Path) -> None:
    model = write_tiny_llama(tmp_path / "tiny.gguf")
    pack = packed_model(model, tmp_path / "packs")
    good = pack.read_bytes()
    packed_model(model, tmp_path / "packs")
    middle = len(good) // 2
    pack.write_bytes(good[:middle] + bytes([good[middle] ^ 1]) + good[middle + 1 :])
    again = packed_model(model, tmp_path / "packs")
    with OrkPack.open(again) as opened:
        assert opened.verify("full") > middle


@pytest.mark.parametrize("suffix", ["", ".lock"])
def test_a_folder_in_the_place_of_a_pack_or_its_lock_names_itself(
    model: Path, tmp_path: Path, suffix: str
) -> None:
    path = packed_model(model, tmp_path / "packs")
    path.unlink()
    blocked = path.with_name(path.name + suffix)
    blocked.unlink(missing_ok=True)
    blocked.mkdir()
    with pytest.raises(InvalidFileError, match="remove or rename it") as found:
        packed_model(model, tmp_path / "packs")
    assert str(blocked) in found.value.line()


def test_a_packs_folder_that_is_none_names_its_variable(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/dev/null")
    with pytest.raises(DeniedError, match="set XDG_CACHE_HOME"):
        packed_model(model, Path("/dev/null/ork/packs"))


@pytest.mark.parametrize("failure", [OSError(12, "Cannot allocate memory"), MemoryError()])
def test_too_little_memory_keeps_the_pack(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: BaseException
) -> None:
    path = packed_model(model, tmp_path / "packs")
    before = path.stat().st_ino

    def no_room(*args: object, **options: object) -> None:
        raise failure

    monkeypatch.setattr("mmap.mmap", no_room)
    with pytest.raises((NoMemoryError, MemoryError)):
        packed_model(model, tmp_path / "packs")
    assert path.stat().st_ino == before


def test_a_model_that_fails_while_it_is_packed_leaves_no_lock(model: Path, tmp_path: Path) -> None:
    write_tiny_llama(model, shape=SHAPE)
    with pytest.MonkeyPatch.context() as patch:

        def broken(*args: object, **options: object) -> None:
            raise InvalidFileError("a weight is not finite")

        patch.setattr(pack_cache, "pack_gguf", broken)
        with pytest.raises(InvalidFileError):
            packed_model(model, tmp_path / "packs")
    assert list((tmp_path / "packs").glob("*.lock")) == []


def test_notes_of_killed_writers_are_removed_and_those_of_others_kept(tmp_path: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    dead, alive = tmp_path / f"a.digest.{ended.pid}.tmp", tmp_path / f"b.digest.{os.getppid()}.tmp"
    dead.touch()
    alive.touch()
    source_digest.write_note(tmp_path / "c.digest", "x")
    assert sorted(path.name for path in tmp_path.iterdir()) == [alive.name, "c.digest"]
    (tmp_path / "d.digest").mkdir()
    source_digest.write_note(tmp_path / "d.digest", "x")
    assert not list(tmp_path.glob(f"d.digest.{os.getpid()}*"))


@pytest.mark.parametrize("scheme", ["w4a8-g32-rot", "nf4-mixed"])
def test_the_space_estimate_knows_four_bit_schemes(tmp_path: Path, scheme: str) -> None:
    wide = TinyShape(layers=1, embedding=256, heads=4, kv_heads=2, feed_forward=512)
    model = write_tiny_llama(tmp_path / "wide.gguf", quant="Q8_0", shape=wide)
    pack_gguf(model, tmp_path / "x.orkpack", scheme=scheme)
    size = (tmp_path / "x.orkpack").stat().st_size
    assert size <= pack_bytes(model, scheme) <= size + (1 << 18)
    assert pack_bytes(model, scheme) < pack_bytes(model)
