"""The engine over the real driver and the simulated chip: not a bit differs from the CPU."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from orkbench_tui.driver.npu import Npu
from orkbench_tui.runner.engine import Engine
from orkbench_tui.runner.gguf_file import GgufFile
from orkbench_tui.runner.orkpack.reader import OrkPack
from orkbench_tui.runner.quantize.pack_model import pack_gguf
from orkbench_tui.runner.tokenizer import Tokenizer
from orkbench_tui.sim.inprocess import InProcessBoard
from tests.reference.tiny_models import VOCABULARY, TinyShape, write_tiny_llama


@pytest.fixture
def npu() -> Iterator[Npu]:
    board = InProcessBoard()
    with Npu(board.device()) as opened:
        yield opened
    board.close()


def test_prompts_of_any_length_give_the_same_bits(tmp_path: Path, npu: Npu) -> None:
    # Widths that are no multiples of 32 are padded on their way to the NPU.
    shape = TinyShape(layers=2, embedding=144, heads=6, kv_heads=2, feed_forward=200)
    pack_gguf(write_tiny_llama(tmp_path / "tiny.gguf", shape=shape), tmp_path / "tiny.orkpack")
    rng = np.random.default_rng(2)
    with OrkPack.open(tmp_path / "tiny.orkpack") as pack:
        on_npu, on_cpu = Engine.from_pack(pack, npu), Engine.from_pack(pack)
        for count in (2, 17, 64, 290):
            tokens = rng.integers(0, VOCABULARY, count).tolist()
            assert on_npu.prefill(tokens).tobytes() == on_cpu.prefill(tokens).tobytes(), count
            assert on_npu.decode(7).tobytes() == on_cpu.decode(7).tobytes()
        used = on_npu.stats.npu
        assert used is not None and used.tasks >= used.submits > 0 and used.hw_ns > 0


@pytest.mark.model
def test_the_default_model_says_paris_either_way(tmp_path: Path, npu: Npu, default_model: Path) -> None:
    pack_gguf(default_model, tmp_path / "model.orkpack")
    with OrkPack.open(tmp_path / "model.orkpack") as pack, GgufFile.open(default_model) as model:
        tokenizer = Tokenizer.from_metadata(model.metadata)
        prompt = tokenizer.encode("The capital of France is")
        on_npu, on_cpu = Engine.from_pack(pack, npu, context=64), Engine.from_pack(pack, context=64)
        logits = on_npu.prefill(prompt)
        assert logits.tobytes() == on_cpu.prefill(prompt).tobytes()
        assert tokenizer.decode([int(logits.argmax())]) == " Paris"
