"""How unevenly experts are used: arithmetic on made-up traces, and the choices of a tiny model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orkbench_tui.errors import RefusedError, UsageError
from orkbench_tui.runner.dispatch.dispatcher import parse_overrides
from orkbench_tui.runner.engine import Engine
from orkbench_tui.runner.expert_floor import floor_s, submits_of
from orkbench_tui.runner.expert_skew import (
    cache_rows,
    expert_counts,
    gini,
    global_pin_hit_rate,
    layer_ginis,
    lru_hit_rate,
    pinned_hit_rate,
    read_choices,
)
from orkbench_tui.runner.gguf_file import GgufFile
from orkbench_tui.runner.gguf_weights import GgufWeights
from orkbench_tui.runner.orkpack.reader import OrkPack
from orkbench_tui.runner.quantize.pack_model import pack_gguf
from tests.reference.decoder import ReferenceDecoder
from tests.reference.tiny_families import TINY_FAMILIES, write_tiny_family
from tests.reference.tiny_models import write_tiny_llama

TOKENS = np.random.default_rng(3).integers(0, 288, 70).tolist()


def skewed(layers: int, tokens: int, experts: int, used: int, steepness: float, seed: int = 0) -> np.ndarray:
    """Choices without repetition, Zipf-like, with other favourites in every layer."""
    random = np.random.default_rng(seed)
    trace = np.empty((layers, tokens, used), np.int32)
    for layer in range(layers):
        chances = 1.0 / np.arange(1, experts + 1) ** steepness
        chances = random.permutation(chances / chances.sum())
        for token in range(tokens):
            trace[layer, token] = random.choice(experts, used, replace=False, p=chances)
    return trace


def test_gini_of_known_distributions() -> None:
    assert gini([5, 5, 5, 5]) == 0
    assert gini([0, 0, 0, 7]) == pytest.approx(0.75)
    assert gini([1, 3]) == pytest.approx(0.25)
    assert gini([0, 0]) == 0


@settings(deadline=None)
@given(st.lists(st.integers(0, 1000), min_size=1, max_size=40))
def test_gini_is_a_share_that_knows_no_order_and_no_unit(counts: list[int]) -> None:
    value = gini(counts)
    assert -1e-9 <= value < 1
    assert gini(sorted(counts)) == pytest.approx(value)
    assert gini([7 * count for count in counts]) == pytest.approx(value)
    # The definition by mean difference.
    numbers = np.array(counts, float)
    differences = np.abs(numbers[:, None] - numbers).mean() / (2 * numbers.mean()) if numbers.sum() else 0
    assert value == pytest.approx(differences)


def test_a_strided_view_gives_what_the_whole_sort_gives_and_a_contiguous_reading_hides_it() -> None:
    scores = np.random.default_rng(1).normal(size=(500, 32)) + np.linspace(0, 4, 32)
    order = np.argsort(-scores, axis=1).astype(np.int32)
    wanted = gini(expert_counts(order[None, :, :4], 32)[0])
    followed = read_choices(order, 500, 4, (32, 1))
    assert gini(expert_counts(followed[None], 32)[0]) == wanted > 0.4
    wrong = read_choices(order, 500, 4, (4, 1))
    assert gini(expert_counts(wrong[None], 32)[0]) < 0.15
    # Written choice by choice instead of token by token.
    spread = np.zeros((500, 8), np.int32)
    spread[:, ::2] = followed
    assert (read_choices(spread, 500, 4, (8, 2)) == followed).all()


@pytest.mark.parametrize("strides", [(3, 1), (0, 1), (32, 0), (33, 1), (32, 20)])
def test_strides_that_cannot_be_are_refused(strides: tuple[int, int]) -> None:
    with pytest.raises(RefusedError):
        read_choices(np.zeros(500 * 32, np.int32), 500, 4, strides)


def test_hit_rates_by_hand() -> None:
    trace = np.array([[[0, 1], [0, 2], [0, 1]], [[3, 2], [3, 1], [3, 2]]], np.int32)
    counts = expert_counts(trace, 4)
    assert counts.tolist() == [[3, 2, 1, 0], [0, 1, 2, 3]]
    assert pinned_hit_rate(counts, 1) == 6 / 12
    assert pinned_hit_rate(counts, 2) == 10 / 12
    assert pinned_hit_rate(counts, 4) == 1
    # With two places a layer: 0 comes back after 1 and 2 each time but one went out for the other.
    assert lru_hit_rate(trace[:1], 2) == pytest.approx(2 / 6)
    assert lru_hit_rate(trace, 4) == pytest.approx((3 + 3) / 12)
    assert lru_hit_rate(trace, 1) == 0


def test_a_pin_for_each_layer_beats_one_for_all_where_layers_have_other_favourites() -> None:
    trace = skewed(6, 400, 64, 4, 1.2)
    rows = cache_rows(trace, 64, expert_bytes=1000)
    assert [row.capacity for row in rows] == [3, 6, 13, 32]
    assert [row.cache_bytes for row in rows] == [6 * 1000 * row.capacity for row in rows]
    for row in rows:
        assert 0 < row.lru < row.pinned < 1
        assert row.global_pin < row.pinned - 0.1
    assert [row.pinned for row in rows] == sorted(row.pinned for row in rows)
    # Control: where all layers have the same favourites there is nothing between them.
    same = np.repeat(trace[:1], 6, axis=0)
    for row in cache_rows(same, 64, expert_bytes=1000):
        assert row.global_pin == row.pinned


@settings(deadline=None)
@given(
    st.lists(st.lists(st.integers(0, 50), min_size=8, max_size=8), min_size=1, max_size=4), st.integers(1, 8)
)
def test_one_pin_is_never_better(counts: list[list[int]], capacity: int) -> None:
    table = np.array(counts, np.int64)
    assert global_pin_hit_rate(table, capacity) <= pinned_hit_rate(table, capacity) + 1e-12


def test_published_sizes_of_caches() -> None:
    """256 experts of 3.15 MB in 40 layers: the published capacities and gigabytes."""
    trace = np.zeros((40, 1, 8), np.int32)
    rows = cache_rows(trace, 256, expert_bytes=3 * 2048 * 512)
    assert [row.capacity for row in rows] == [13, 26, 51, 128]
    assert [round(row.cache_bytes / 1e9, 1) for row in rows] == [1.6, 3.3, 6.4, 16.1]


def test_submits_of_experts_and_their_floor_are_the_published_ones() -> None:
    """128 tokens, 8 of 128 experts in 48 layers, all of them chosen by somebody."""
    trace = np.tile(np.arange(1024, dtype=np.int32).reshape(128, 8) % 128, (48, 1, 1))
    submits = submits_of(trace)
    assert (submits.by_token, submits.by_expert, submits.chained) == (147_456, 18_432, 144)
    assert floor_s(submits.by_expert) == pytest.approx(6.7, abs=0.05)
    assert floor_s(4_000_000, "expert_program") == pytest.approx(72)
    # An expert nobody took costs nothing.
    assert submits_of(np.zeros((48, 128, 8), np.int32)).by_expert == 144


def test_more_skew_more_hits() -> None:
    flat, steep = (skewed(2, 300, 32, 4, steepness) for steepness in (0.3, 1.5))
    ginis = [np.mean(layer_ginis(expert_counts(trace, 32))) for trace in (flat, steep)]
    assert ginis[0] < ginis[1]
    rates = [pinned_hit_rate(expert_counts(trace, 32), 3) for trace in (flat, steep)]
    assert rates[0] < rates[1]
    assert global_pin_hit_rate(expert_counts(steep, 32), 32) == 1


class Telling(ReferenceDecoder):
    """The plain forward pass, which also tells the experts of every token, layer by layer."""

    def __init__(self, *parts: Any) -> None:
        self.taken: list[list[int]] = []
        super().__init__(*parts)

    def _experts(self, prefix: str, h: np.ndarray) -> np.ndarray:
        assert self.architecture.moe is not None
        scores = h @ self._vectors[prefix + "ffn_gate_inp.weight"].T
        best = np.argsort(-scores, axis=1, kind="stable")[:, : self.architecture.moe.used]
        self.taken += [sorted(row) for row in best.tolist()]
        return super()._experts(prefix, h)


def test_choices_of_a_tiny_model_are_those_of_a_plain_forward_pass(tmp_path: Path) -> None:
    path = write_tiny_family(tmp_path / "moe.gguf", "qwen3moe")
    with GgufFile.open(path) as file:
        engine = Engine.from_floats(GgufWeights(file), context=128)
        choices = engine.expert_choices(TOKENS)
        reference = Telling.from_gguf(file)
        assert isinstance(reference, Telling)
        reference.hidden_of(TOKENS)
        layers = engine.architecture.layers
        assert choices.shape == (layers, 70, 3)
        assert [sorted(row) for layer in choices.tolist() for row in layer] == reference.taken
        assert engine.position == 70
        # The cache it leaves is the usual run's.
        other = Engine.from_floats(GgufWeights(file), context=128)
        other.prefill(TOKENS)
        assert np.abs(other.decode(5) - engine.decode(5)).max() < 1e-4


def test_choices_in_int8_and_in_pieces(tmp_path: Path) -> None:
    pack_gguf(write_tiny_family(tmp_path / "moe.gguf", "qwen3moe"), tmp_path / "moe.orkpack")
    with OrkPack.open(tmp_path / "moe.orkpack") as pack:
        whole = Engine.from_pack(pack, context=128).expert_choices(TOKENS)
        engine = Engine.from_pack(pack, context=128)
        parts = [engine.expert_choices(TOKENS[:41]), engine.expert_choices(TOKENS[41:])]
    assert (np.concatenate(parts, axis=1) == whole).all()
    assert len(np.unique(whole)) > 3


def test_a_model_without_experts_is_refused(tmp_path: Path) -> None:
    with GgufFile.open(write_tiny_llama(tmp_path / "tiny.gguf")) as file:
        engine = Engine.from_floats(GgufWeights(file), context=128)
        with pytest.raises(RefusedError, match="no experts"):
            engine.expert_choices(TOKENS)


def test_the_router_is_no_weight_of_the_npu_whatever_the_experts_number(tmp_path: Path) -> None:
    """It is read as floats by the CPU: no pack has it as a weight, and no override can move it."""
    name = next(name for name, family in TINY_FAMILIES.items() if family.experts)
    with GgufFile.open(write_tiny_family(tmp_path / "moe.gguf", name)) as file:
        assert any("ffn_gate_inp" in tensor for tensor in file.tensors)
        architecture = GgufWeights(file).architecture
        assert not any("ffn_gate_inp" in linear.name for linear in architecture.all_linears())
    for words in ("router=npu", "ffn_gate_inp=npu"):
        with pytest.raises(UsageError):
            parse_overrides(words)
