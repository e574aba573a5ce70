"""What the timing model is told of an architecture."""

from __future__ import annotations

from pathlib import Path

from orkbench_tui.runner.gguf_file import GgufFile
from orkbench_tui.runner.models.model_shape import model_shape
from orkbench_tui.runner.models.read_architecture import architecture_of
from tests.reference.tiny_models import TinyShape, write_tiny_llama


def test_sizes_are_those_of_the_file(tmp_path: Path) -> None:
    shape = TinyShape(layers=2, embedding=64, heads=4, kv_heads=2, feed_forward=96)
    with GgufFile.open(write_tiny_llama(tmp_path / "m.gguf", shape=shape)) as model:
        architecture = architecture_of(model)
    found = model_shape(architecture)
    layer_weights = sum(linear.K * linear.N for linear in architecture.linears(0))
    assert found.layer_weights == 2 * layer_weights == found.active_weights
    assert found.head_weights == 64 * 288
    assert (found.layers, found.attention_width) == (2, 64)
    assert found.inputs == 2 * (4 * 64 + 2 * 64 + 96)
