"""Weights are in memory once: what was copied to the NPU is not kept as pages of the file beside it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from orkbench_tui.runner.engine import Engine
from orkbench_tui.runner.mapped_file import forget_pages
from orkbench_tui.runner.orkpack.reader import OrkPack
from orkbench_tui.runner.quantize.pack_model import pack_gguf
from tests.reference.tiny_models import TinyShape, write_tiny_llama
from tests.runner.exact_npu import ExactNpu


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("one-copy")
    shape = TinyShape(layers=2, embedding=512, heads=8, kv_heads=2, feed_forward=1536)
    pack_gguf(write_tiny_llama(folder / "wide.gguf", shape=shape), folder / "wide.orkpack", scheme="w8a8")
    return folder / "wide.orkpack"


def resident_bytes(path: Path) -> int:
    """Bytes of mappings of the file that are in this process's memory."""
    total, ours = 0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        words = line.split()
        if "-" in words[0] and not words[0].endswith(":"):
            ours = words[-1] == str(path)
        elif ours and words[0] == "Rss:":
            total += int(words[1]) * 1024
    return total


def test_pages_of_an_array_go_and_come_back_when_read(path: Path) -> None:
    with OrkPack.open(path) as pack:
        tiles = pack.packed("blk.0.ffn_down.weight").tiles
        expected = tiles.copy()
        before = resident_bytes(path)
        assert before > tiles.nbytes
        forget_pages(tiles)
        assert before - resident_bytes(path) > 0.9 * tiles.nbytes
        assert np.array_equal(tiles, expected)
        assert resident_bytes(path) > 0.9 * tiles.nbytes


def test_arrays_that_are_no_file_stay(path: Path) -> None:
    array = np.arange(1 << 20, dtype=np.int8)
    forget_pages(array)
    forget_pages(array[5:900_000])
    assert np.array_equal(array, np.arange(1 << 20, dtype=np.int8))


@pytest.mark.parametrize("hidden", [False, True])
def test_loading_into_the_npu_leaves_no_second_copy(path: Path, hidden: bool) -> None:
    with OrkPack.open(path) as pack:
        weights = sum(pack.tensors[name].data_size for name in pack.packed_names if name != "output.weight")
        engine = Engine.from_pack(pack, ExactNpu(hide_tiles=hidden))
        kept = resident_bytes(path)
        # Where the CPU cannot read the NPU's copy it needs the file's, so that one stays.
        assert (kept > 0.9 * weights) == hidden and (kept < 0.2 * weights) == (not hidden)
        assert np.isfinite(engine.prefill(list(range(40)))).all()
