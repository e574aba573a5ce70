"""A whole small model in four bits on both sides: how far it strays from its float self, plain and rotated."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from orkbench_tui.runner.gguf_file import GgufFile
from orkbench_tui.runner.gguf_weights import GgufWeights
from orkbench_tui.runner.quantize.arm_engine import arm_engine
from orkbench_tui.runner.quantize.arms import ARMS
from tests.reference.decoder import ReferenceDecoder
from tests.reference.tiny_models import TinyShape, random_weights, write_tiny_llama

SHAPE = TinyShape(embedding=128, feed_forward=256)


@pytest.fixture
def outliers(tmp_path: Path) -> Path:
    """Norms that make three inputs of every matmul twenty times as large, as real models have them."""
    loud = np.ones(SHAPE.embedding, np.float32)
    loud[[5, 50, 101]] = 20.0
    weights = random_weights(SHAPE, 0)
    weights |= {f"blk.{n}.{kind}_norm.weight": loud for n in range(SHAPE.layers) for kind in ("attn", "ffn")}
    return write_tiny_llama(tmp_path / "m.gguf", shape=SHAPE, weights=weights)


def _nll(logits: np.ndarray, chosen: np.ndarray) -> float:
    """Mean surprise at the tokens the float model would choose."""
    shifted = logits - logits.max(axis=1, keepdims=True)
    logs = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return -float(logs[np.arange(len(chosen)), chosen].mean())


@pytest.mark.parametrize("tokens", [32, 64])
def test_rotation_keeps_a_four_bit_model_nearer_to_its_float_self(outliers: Path, tokens: int) -> None:
    ids = [(7 * index + 3) % 250 for index in range(tokens)]
    with GgufFile.open(outliers) as file:
        exact = np.asarray(ReferenceDecoder.from_gguf(file).logits_of(ids), np.float64)
        chosen = exact.argmax(axis=1)
        loss = {"float": _nll(exact, chosen)}
        for name in ("w4a4", "w4a4-rot"):
            engine = arm_engine(GgufWeights(file), ARMS[name], context=64)
            assert engine.quant == f"fake:{name}", "the run says which of the two it was"
            loss[name] = _nll(np.asarray(engine.logits_of(ids), np.float64), chosen)
    assert loss["float"] < loss["w4a4-rot"] < loss["w4a4"]
