"""Weights that chains take: one slice over the whole K, also when they come from a pack."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from orkbench_tui.driver.chain import ChainTask
from orkbench_tui.driver.matmul.formats import INT8
from orkbench_tui.driver.npu import Npu
from orkbench_tui.errors import RefusedError
from orkbench_tui.runner.orkpack.reader import OrkPack
from orkbench_tui.runner.quantize.pack_model import pack_gguf
from tests.reference import w8a8
from tests.reference.tiny_models import TinyShape, write_tiny_llama


def matrix(n: int, k: int) -> np.ndarray:
    return np.random.default_rng(k).integers(-128, 128, (n, k), dtype=np.int8)


@pytest.mark.parametrize("k", [512, 1024, 2048, 4096])
def test_a_wide_k_is_one_slice_and_chains(npu: Npu, k: int) -> None:
    """2048, an expert's, was two slices of 1024 where weights were cut for single matmuls."""
    b, a = matrix(32, k), matrix(7, k)
    weight = npu.load(INT8, "w", b)
    assert [(part.first, part.length) for part in weight.slices] == [(0, k)]
    chain = npu.chain([ChainTask(weight, 7)])
    chain.activations[0][:] = a
    before = npu.counters
    chain.run()
    assert npu.counters.since(before).submits == 1
    np.testing.assert_array_equal(chain.outputs[0], a.astype(np.int64) @ b.astype(np.int64).T)


def test_one_slice_up_to_what_one_program_takes(npu: Npu) -> None:
    most = npu.soc.max_k_int8
    assert len(npu.load(INT8, "most", matrix(32, most)).slices) == 1
    wider = npu.load(INT8, "wider", matrix(32, most + 512))
    assert len(wider.slices) == 2
    with pytest.raises(RefusedError, match="GRD-1"):
        npu.chain([ChainTask(wider, 1)])


def test_a_weight_of_a_pack_chains_and_is_the_one_packed_anew(npu: Npu, tmp_path: Path) -> None:
    shape = TinyShape(layers=1, embedding=512, heads=8, kv_heads=4, feed_forward=768)
    pack_gguf(write_tiny_llama(tmp_path / "m.gguf", shape=shape), tmp_path / "m.orkpack")
    a = matrix(5, 512)
    with OrkPack.open(tmp_path / "m.orkpack") as pack:
        for name in ("blk.0.attn_q.weight", "blk.0.ffn_up.weight"):
            stored = pack.packed(name)
            anew = w8a8.untile(stored.tiles, stored.N, stored.K)
            loaded = npu.load_int8(name, stored.tiles, stored.K, stored.N)
            fresh = npu.load(INT8, "fresh", anew)
            assert loaded.tiles is not None and fresh.tiles is not None
            assert loaded.tiles.tobytes() == fresh.tiles.tobytes()
            chain = npu.chain([ChainTask(loaded, 5), ChainTask(fresh, 5)])
            for array in chain.activations:
                array[:] = a
            chain.run()
            exact = a.astype(np.int64) @ anew.astype(np.int64).T
            for output in chain.outputs:
                np.testing.assert_array_equal(output, exact)
        # K = 768 is no multiple of 512: it loads, and a chain refuses it.
        down = pack.packed("blk.0.ffn_down.weight")
        weight = npu.load_int8("down", down.tiles, down.K, down.N)
        with pytest.raises(RefusedError, match="GRD-10"):
            npu.chain([ChainTask(weight, 5)])
