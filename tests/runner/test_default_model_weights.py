"""The default model's weights: facts published about the file, and the float32 likelihoods they give."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from orkbench_tui.runner.gguf_file import GgufFile
from orkbench_tui.runner.gguf_types import GgmlType
from orkbench_tui.runner.models.read_architecture import architecture_of
from orkbench_tui.runner.orkpack.reader import OrkPack
from orkbench_tui.runner.perplexity import measure, text_digest
from orkbench_tui.runner.quantize.pack_cache import packed_model
from orkbench_tui.runner.texts import perplexity_text
from orkbench_tui.runner.tokenizer import Tokenizer
from tests.reference import w8a8
from tests.reference.decoder import ReferenceDecoder

pytestmark = pytest.mark.model


def test_the_file_is_what_is_published_about_it(default_model: Path) -> None:
    with GgufFile.open(default_model) as model:
        assert (len(model.tensors), len(model.metadata), model.data_offset) == (272, 33, 1785664)
        by_type = {t: sum(info.type is t for info in model.tensors.values()) for t in GgmlType}
        assert (by_type[GgmlType.Q4_1], by_type[GgmlType.Q8_0], by_type[GgmlType.F32]) == (210, 1, 61)
        a = architecture_of(model)
    assert (a.layers, a.embedding, a.feed_forward, a.heads, a.kv_heads, a.head_dim) == (
        30,
        576,
        1536,
        9,
        3,
        64,
    )
    assert (a.vocab_size, a.rope.base, a.rope.pairing, a.tied_head) == (49152, 100000.0, "norm", True)
    assert a.norm_eps == pytest.approx(1e-5)


def test_its_pack_holds_the_oracle_quantization(default_model: Path, shared_packs: Path) -> None:
    path = packed_model(default_model, shared_packs)
    with GgufFile.open(default_model) as model, OrkPack.open(path) as pack:
        pack.verify("full")
        assert pack.architecture == architecture_of(model)
        for name in ("blk.0.attn_k.weight", "blk.17.ffn_down.weight", "blk.29.attn_output.weight"):
            codes, scales = w8a8.quantize(w8a8.hadamard(model.dequantized(name)))
            tensor = pack.packed(name)
            np.testing.assert_array_equal(tensor.tiles, w8a8.tile(codes))
            np.testing.assert_array_equal(tensor.scales, scales)
            del tensor
        assert Tokenizer.from_metadata(pack.metadata).encode("The capital") == Tokenizer.from_metadata(
            model.metadata
        ).encode("The capital")


def test_a_cut_copy_is_refused(default_model: Path, tmp_path: Path) -> None:
    from orkbench_tui.errors import InvalidFileError

    copy = tmp_path / "cut.gguf"
    shutil.copyfile(default_model, copy)
    with copy.open("r+b") as handle:
        handle.truncate(copy.stat().st_size - 1)
    with pytest.raises(InvalidFileError, match="cut short"):
        GgufFile.open(copy)


def test_the_float32_pass_gives_the_known_likelihoods(default_model: Path) -> None:
    """Two of the nine windows behind the published 26.7458 half and 30.9323 full (the whole takes 18 s)."""
    text = perplexity_text()
    with GgufFile.open(default_model) as model:
        tokens = Tokenizer.from_metadata(model.metadata).encode(text)
        reference = ReferenceDecoder.from_gguf(model)
    assert len(tokens) == 4943
    result = measure(reference, tokens[:1024], window=512, text_sha256=text_digest(text), bos_token=None)
    assert result.half.value == pytest.approx(25.35974, rel=1e-4)
    assert result.full.value == pytest.approx(24.65190, rel=1e-4)
