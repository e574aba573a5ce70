"""Experts' tiles from Q4_K and other stored types, never as a float32 matrix."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import gguf
import numpy as np
import pytest

from orkbench_tui.native.tiles import quantize_weights
from orkbench_tui.runner.gguf_file import GgufFile
from orkbench_tui.runner.models.architecture import Linear
from orkbench_tui.runner.quantize.expert_tiles import tiles_of_linear

EXPERTS, N, K = 3, 40, 512


def write(path: Path, type_: gguf.GGMLQuantizationType) -> Path:
    """Random blocks: any bits are a weight, once the two scales are ordinary half-precision numbers."""
    rng = np.random.default_rng(1)
    block, size = gguf.GGML_QUANT_SIZES[type_]
    data = rng.integers(0, 256, (EXPERTS, N, K // block, size), dtype=np.uint8)
    scales = rng.uniform(0.01, 0.1, (EXPERTS, N, K // block, 2)).astype(np.float16)
    data[..., :4] = scales.view(np.uint8)
    writer = gguf.GGUFWriter(path, "qwen3moe")
    writer.add_tensor("w", data.reshape(EXPERTS, N, -1), raw_dtype=type_)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.mark.parametrize("type_", ["Q4_K", "Q5_K"])
@pytest.mark.parametrize("rotation", [0, 128])
def test_the_fused_path_gives_the_bytes_of_the_float_copy(tmp_path: Path, type_: str, rotation: int) -> None:
    with GgufFile.open(write(tmp_path / "m.gguf", gguf.GGMLQuantizationType[type_])) as model:
        for expert in range(EXPERTS):
            linear = Linear(f"w#{expert}", K, N, "w", expert)
            tiles, scales = tiles_of_linear(model, linear, rotation=rotation)
            whole, wanted = quantize_weights(model.dequantized("w")[expert], rotation=rotation)
            assert tiles.tobytes() == whole.tobytes() and scales.tobytes() == wanted.tobytes()
        assert (
            len({tiles_of_linear(model, Linear("", K, N, "w", e))[0].tobytes() for e in range(EXPERTS)}) == 3
        )


def test_no_float_copy_of_the_weight_is_made(tmp_path: Path) -> None:
    with GgufFile.open(write(tmp_path / "m.gguf", gguf.GGMLQuantizationType.Q4_K)) as model:
        linear = Linear("w#1", K, N, "w", 1)
        tiles_of_linear(model, linear)
        tracemalloc.start()
        tiles, _ = tiles_of_linear(model, linear)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < tiles.nbytes + N * K * 4 / 2
