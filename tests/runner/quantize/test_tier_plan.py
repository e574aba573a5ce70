"""Which weight gets how many bits: the map of a mixed file, and what is decided from it."""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np
import pytest

from orkbench_tui.errors import InvalidFileError, RefusedError, UsageError
from orkbench_tui.runner.gguf_file import GgufFile
from orkbench_tui.runner.models.read_architecture import architecture_of
from orkbench_tui.runner.orkpack.schemes import SCHEMES
from orkbench_tui.runner.quantize.tier_plan import (
    PackChoices,
    allocation_of,
    map_lines,
    tier_plan,
    type_counts,
)
from tests.conftest import ork
from tests.reference.tiny_models import TinyShape, write_tiny_llama

DIGEST = "ab" * 32


def mixed_file(path: Path) -> Path:
    """The types of a published Q4_K_M file: of 28 layers, five Q4_K matrices and one Q6_K each, and norms."""
    writer = gguf.GGUFWriter(path, "llama")
    for layer in range(28):
        for part in ("attn_q", "attn_k", "attn_output", "ffn_gate", "ffn_up"):
            data = np.zeros((2, 144), np.uint8)
            writer.add_tensor(f"blk.{layer}.{part}.weight", data, raw_dtype=gguf.GGMLQuantizationType.Q4_K)
        data = np.zeros((2, 210), np.uint8)
        writer.add_tensor(f"blk.{layer}.ffn_down.weight", data, raw_dtype=gguf.GGMLQuantizationType.Q6_K)
        writer.add_tensor(f"blk.{layer}.attn_norm.weight", np.zeros(256, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_the_map_of_a_mixed_file(tmp_path: Path) -> None:
    path = mixed_file(tmp_path / "mixed.gguf")
    assert type_counts(path) == {("Q4_K", "uniform4"): 140, ("Q6_K", "int8"): 28}
    done = ork("pack", "tiers", str(path), "--emit-map")
    lines = done.stdout.splitlines()
    assert done.returncode == 0 and len(lines) == 168 and done.stderr == ""
    assert lines == map_lines({name: (tier, "") for name, tier in allocation_of(path).items()})
    assert "blk.3.ffn_down.weight\tint8" in lines and "blk.3.ffn_up.weight\tint4" in lines


def test_every_weight_has_a_tier_and_the_reason_for_it(tmp_path: Path) -> None:
    shape = TinyShape(layers=1, embedding=64, heads=4, kv_heads=2, feed_forward=96)
    source = write_tiny_llama(tmp_path / "tiny.gguf", quant="Q8_0", shape=shape)
    with GgufFile.open(source) as model:
        architecture = architecture_of(model)
        mixed = tier_plan(model, architecture, SCHEMES["nf4-mixed"], PackChoices(), DIGEST)
        assert mixed.tiers["output.weight"] == ("int8", "head")
        assert mixed.tiers["blk.0.attn_q.weight"] == ("int8", "part of the model")
        assert mixed.tiers["blk.0.ffn_up.weight"] == ("nf4", "scheme")
        assert mixed.counts == {"int8": 5, "nf4": 3} and mixed.signature == 0
        own = tier_plan(model, architecture, SCHEMES["w4a8-g32-rot"], PackChoices(allocation=source), DIGEST)
        assert own.counts == {"int8": 8} and own.signature != 0
        with pytest.raises(UsageError, match="8 bits"):
            tier_plan(model, architecture, SCHEMES["w8a8"], PackChoices(allocation=source), DIGEST)
        with pytest.raises(InvalidFileError, match="of another model"):
            other = mixed_file(tmp_path / "mixed.gguf")
            tier_plan(model, architecture, SCHEMES["w4a8-g32-rot"], PackChoices(allocation=other), DIGEST)


def test_a_low_bit_source_is_refused_unless_forced_and_then_stamped(tmp_path: Path) -> None:
    source = write_tiny_llama(tmp_path / "low.gguf", quant="Q4_0")
    with GgufFile.open(source) as model:
        architecture = architecture_of(model)
        with pytest.raises(RefusedError, match="round it twice"):
            tier_plan(model, architecture, SCHEMES["w4a8-g32-rot"], PackChoices(), DIGEST)
        forced = tier_plan(model, architecture, SCHEMES["w4a8-g32-rot"], PackChoices(force=True), DIGEST)
        assert any("Q4_0" in stamp for stamp in forced.facts()["low_bit_sources"])
    done = ork("pack", "build", str(source), "--quant", "w4a8-g32-rot", "--out", str(tmp_path / "x.orkpack"))
    assert done.returncode == 7 and not list(tmp_path.glob("x.orkpack*"))
