"""The oracle itself: properties any correct forward pass has, so that agreeing with it means something."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from orkbench_tui.runner.gguf_file import GgufFile
from tests.reference import w8a8
from tests.reference.decoder import ReferenceDecoder
from tests.reference.tiny_models import TinyShape, random_weights, vocabulary, write_tiny_llama

TOKENS = [5, 200, 31, 31, 7, 250, 90, 12, 64, 3, 280, 41]


def _model(
    tmp_path: Path, *, quant: str = "f32", shape: TinyShape | None = None, seed: int = 0
) -> ReferenceDecoder:
    path = write_tiny_llama(tmp_path / f"{seed}.gguf", shape=shape, seed=seed)
    with GgufFile.open(path) as model:
        return ReferenceDecoder.from_gguf(model, quant=quant)


def test_logits_do_not_depend_on_how_the_tokens_are_fed(tmp_path: Path) -> None:
    model = _model(tmp_path)
    whole = model.logits_of(TOKENS)
    model.rewind(0)
    parts = np.concatenate(
        [model.logits_of(TOKENS[:5]), model.logits_of(TOKENS[5:6]), model.logits_of(TOKENS[6:])]
    )
    np.testing.assert_allclose(parts, whole, atol=2e-4)
    model.rewind(4)
    np.testing.assert_allclose(model.logits_of(TOKENS[4:]), whole[4:], atol=2e-4)


def test_later_tokens_do_not_change_earlier_logits(tmp_path: Path) -> None:
    model = _model(tmp_path)
    first = model.logits_of(TOKENS)
    model.rewind(0)
    second = model.logits_of([*TOKENS[:-1], 99])
    np.testing.assert_allclose(second[:-1], first[:-1], atol=2e-4)
    assert np.abs(second[-1] - first[-1]).max() > 0.1


def test_order_matters_through_the_rotary_embedding(tmp_path: Path) -> None:
    model = _model(tmp_path)
    forward = model.logits_of([*TOKENS, 17])[-1]
    model.rewind(0)
    swapped = model.logits_of([TOKENS[1], TOKENS[0], *TOKENS[2:], 17])[-1]
    assert np.abs(forward - swapped).max() > 0.01


def test_rotation_keeps_lengths_and_depends_on_distance_alone(tmp_path: Path) -> None:
    model = _model(tmp_path)
    rng = np.random.default_rng(1)
    q, k = rng.standard_normal((2, 6, 1, 32)).astype(np.float32)
    q[:], k[:] = q[0], k[0]
    turned_q, turned_k = model._rotate(q), model._rotate(k)
    np.testing.assert_allclose(np.linalg.norm(turned_q, axis=-1), np.linalg.norm(q, axis=-1), rtol=1e-5)
    dots = np.einsum("ihd,jhd->ij", turned_q, turned_k)
    np.testing.assert_allclose(dots[2, 0], dots[5, 3], rtol=1e-4)
    assert abs(dots[2, 0] - dots[5, 0]) > 1e-3


def test_rope_factors_are_used(tmp_path: Path) -> None:
    shape = TinyShape(rope_factors=True)
    weights = random_weights(shape)
    plain = {name: array for name, array in weights.items() if name != "rope_freqs.weight"}
    logits = []
    for number, chosen in enumerate((weights, plain)):
        path = write_tiny_llama(tmp_path / f"f{number}.gguf", shape=shape, weights=chosen)
        with GgufFile.open(path) as model:
            logits.append(ReferenceDecoder.from_gguf(model).logits_of(TOKENS))
    assert np.abs(logits[0] - logits[1]).max() > 0.01


@pytest.mark.parametrize("quant", ["w8a8", "w8a8-rot"])
def test_the_quantized_pass_is_near_and_not_equal(tmp_path: Path, quant: str) -> None:
    exact = _model(tmp_path).logits_of(TOKENS)
    quantized = _model(tmp_path, quant=quant).logits_of(TOKENS)
    error = np.sqrt(np.mean((exact - quantized) ** 2)) / exact.std()
    assert 1e-4 < error < 0.15


def test_accumulation_is_exact_beyond_the_float32_limit() -> None:
    rng = np.random.default_rng(2)
    left = rng.choice(np.array([-127, 127], dtype=np.int8), (4, 4000))
    right = np.repeat(left[:1], 3, axis=0)
    expected = left.astype(np.int64) @ right.astype(np.int64).T
    np.testing.assert_array_equal(w8a8.accumulate(left, right), expected)


def test_tiling_round_trip_with_tails() -> None:
    codes = np.random.default_rng(3).integers(-127, 128, (45, 70)).astype(np.int8)
    tiles = w8a8.tile(codes)
    assert tiles.size == 64 * 96
    np.testing.assert_array_equal(w8a8.untile(tiles, 45, 70), codes)
    assert tiles[(33 // 32) * 32 * 96 + (40 // 32) * 1024 + (33 % 32) * 32 + 40 % 32] == codes[33, 40]


def test_the_tiny_vocabulary_is_one_a_tokenizer_can_use() -> None:
    tokens, merges = vocabulary()
    assert len(set(tokens)) == len(tokens) == 288
    for merge in merges:
        left, right = merge.split(" ")
        assert left in tokens and right in tokens and left + right in tokens


@pytest.mark.parametrize("type_", ["Q8_0", "Q4_1"])
def test_quantized_files_are_near_the_float_file(tmp_path: Path, type_: str) -> None:
    exact = _model(tmp_path).logits_of(TOKENS)
    path = write_tiny_llama(tmp_path / "q.gguf", quant=type_)  # type: ignore[arg-type]
    with GgufFile.open(path) as model:
        logits = ReferenceDecoder.from_gguf(model).logits_of(TOKENS)
    assert np.sqrt(np.mean((exact - logits) ** 2)) / exact.std() < {"Q8_0": 0.1, "Q4_1": 1.0}[type_]
