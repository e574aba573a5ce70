"""Real models of the catalogue, where they have been pulled: exact ids, the perplexity of a plain float32 pass."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from orkbench_tui import locations
from orkbench_tui.runner.catalogue import CATALOGUE
from orkbench_tui.runner.engine import Engine
from orkbench_tui.runner.gguf_file import GgufFile
from orkbench_tui.runner.gguf_weights import GgufWeights
from orkbench_tui.runner.perplexity import token_nlls
from orkbench_tui.runner.texts import perplexity_text
from orkbench_tui.runner.tokenizer import Tokenizer

pytestmark = pytest.mark.model

_MODELS = locations.models_dir()
# Tokens of the standard text as llama.cpp counts them; ids of a probe; full-window perplexity of its first window.
_KNOWN = {
    "gemma-3-270m": (4796, "  two  spaces", [2, 138, 13498, 138, 35220], 10.512833109112513),
    "qwen2.5-coder-0.5b": (
        4885,
        "def f(x):\n    return 42",
        [750, 282, 2075, 982, 262, 470, 220, 19, 17],
        22.438172527167186,
    ),
}
WINDOW = 128


@pytest.fixture(params=sorted(_KNOWN))
def named(request: pytest.FixtureRequest) -> tuple[str, Path]:
    path = _MODELS / CATALOGUE[request.param].file_name
    if not path.exists():
        pytest.skip(f"`ork model pull {request.param}` brings it")
    return request.param, path


def test_ids_are_those_of_llama_cpp(named: tuple[str, Path]) -> None:
    count, probe, ids, _ = _KNOWN[named[0]]
    with GgufFile.open(named[1]) as model:
        tokenizer = Tokenizer.from_metadata(model.metadata)
    assert tokenizer.encode(probe) == ids
    text = perplexity_text()
    everything = tokenizer.encode(text)
    assert len(everything) == count
    assert tokenizer.text_bytes(everything).decode() == text


def test_float_perplexity_is_that_of_plain_numpy(named: tuple[str, Path]) -> None:
    with GgufFile.open(named[1]) as model:
        tokens = Tokenizer.from_metadata(model.metadata).encode(perplexity_text())[:WINDOW]
        logits = Engine.from_floats(GgufWeights(model), context=WINDOW).logits_of(tokens)
    perplexity = math.exp(token_nlls(logits, tokens[1:]).mean())
    assert perplexity == pytest.approx(_KNOWN[named[0]][3], rel=1e-4)
