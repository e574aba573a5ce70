"""Perplexity: the two definitions, on numbers worked out by hand and on a model whose answer is known."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence

import numpy as np
import pytest

from orkbench_tui.errors import UsageError
from orkbench_tui.runner.perplexity import Chunk, Estimate, measure, text_digest, token_nlls
from orkbench_tui.runner.texts import perplexity_text


class _PositionModel:
    """Gives the true next token the probability 1/(position in the window + 2), the rest shared evenly."""

    vocabulary = 50

    def __init__(self, tokens: Sequence[int]) -> None:
        self.tokens = list(tokens)
        self.seen: list[list[int]] = []
        self.position = -1

    def rewind(self, position: int) -> None:
        self.position = position

    def logits_of(self, tokens: Sequence[int]) -> np.ndarray:
        assert self.position == 0
        self.position = len(tokens)
        start = sum(len(part) for part in self.seen)
        self.seen.append(list(tokens))
        logits = np.empty((len(tokens), self.vocabulary), dtype=np.float32)
        for i in range(len(tokens)):
            p = 1 / (i + 2)
            logits[i] = math.log((1 - p) / (self.vocabulary - 1))
            logits[i, self.tokens[(start + i + 1) % len(self.tokens)]] = math.log(p)
        return logits + 100


def _geometric_mean(values: Sequence[float]) -> float:
    return math.exp(sum(math.log(value) for value in values) / len(values))


def test_half_and_full_window_score_the_positions_they_should() -> None:
    tokens = [(7 * i) % 50 for i in range(27)]
    model = _PositionModel(tokens)
    seen: list[Chunk] = []
    result = measure(
        model,
        tokens,
        window=8,
        text_sha256="x",
        bos_token=None,
        progress=lambda chunk, count: seen.append(chunk),
    )
    assert [len(part) for part in model.seen] == [8, 8, 8]
    # Position p (1..7) is predicted with probability 1/(p+1); the second half scores 5, 6, 7.
    assert result.full.value == pytest.approx(_geometric_mean([2, 3, 4, 5, 6, 7, 8]), rel=1e-5)
    assert result.half.value == pytest.approx(_geometric_mean([6, 7, 8]), rel=1e-5)
    assert (result.full.tokens_scored, result.half.tokens_scored) == (21, 9)
    assert [chunk.index for chunk in seen] == [0, 1, 2] and tuple(seen) == result.chunks
    assert seen[2].running_half == pytest.approx(result.half.value)


def test_a_window_of_512_scores_255_positions_in_its_half() -> None:
    class Flat:
        def rewind(self, position: int) -> None: ...

        def logits_of(self, tokens: Sequence[int]) -> np.ndarray:
            return np.zeros((len(tokens), 4), dtype=np.float32)

    result = measure(Flat(), [1] * 1024, window=512, text_sha256="x", bos_token=None)
    assert (result.half.tokens_scored, result.full.tokens_scored) == (2 * 255, 2 * 511)
    assert result.half.value == pytest.approx(4.0) and result.half.uncertainty == pytest.approx(0.0, abs=1e-6)


def test_bos_replaces_the_first_token_of_each_window_where_there_is_one() -> None:
    tokens = [(3 * i) % 50 for i in range(16)]
    model = _PositionModel(tokens)
    result = measure(model, tokens, window=8, text_sha256="x", bos_token=42)
    assert [part[0] for part in model.seen] == [42, 42]
    assert model.seen[0][1:] == tokens[1:8]
    assert "replaces" in result.bos and result.as_dict()["bos"] == result.bos


def test_uncertainty_is_the_error_of_the_mean_carried_through_exp() -> None:
    nlls = np.array([1.0, 2.0, 3.0, 4.0])
    estimate = Estimate.of(nlls)
    assert estimate.value == pytest.approx(math.exp(2.5))
    assert estimate.uncertainty == pytest.approx(math.exp(2.5) * math.sqrt(1.25 / 3))


def test_nlls_are_stable_for_large_logits() -> None:
    logits = np.full((70, 3), 3e4, dtype=np.float32)
    logits[:, 1] += 10
    nlls = token_nlls(logits, [1] * 70)
    assert nlls == pytest.approx(np.full(70, math.log(1 + 2 * math.exp(-10))))


@pytest.mark.parametrize(("count", "window"), [(1023, 512), (10, 3)])
def test_too_short_a_text_or_window_is_refused(count: int, window: int) -> None:
    with pytest.raises(UsageError):
        measure(_PositionModel([1]), [1] * count, window=window, text_sha256="x", bos_token=None)


def test_the_standard_text_is_the_one_the_published_figures_are_of() -> None:
    text = perplexity_text()
    assert len(text) == 21008
    assert text_digest(text) == "2da8ce1ebf8386c5b4888b4b3fb7f39e2e396da1e7511c481d941768426f4dfa"
    assert text_digest("ä") == hashlib.sha256("ä".encode()).hexdigest()
