"""Perplexity of engine against references on the shipped text, window 512, paired chunk by chunk.

float32: the engine in float32 against a plain numpy forward pass. The int8 schemes: the engine with its
prompts on the simulated NPU against a numpy pass of the same scheme. ``ORK_BENCH_WINDOWS`` bounds the windows.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from orkbench_tui import locations
from orkbench_tui.runner import model_store
from orkbench_tui.runner.engine import Engine
from orkbench_tui.runner.gguf_file import GgufFile
from orkbench_tui.runner.gguf_weights import GgufWeights
from orkbench_tui.runner.orkpack.reader import OrkPack
from orkbench_tui.runner.perplexity import LogitSource, Perplexity, measure, text_digest
from orkbench_tui.runner.quantize.pack_cache import packed_model
from orkbench_tui.runner.texts import perplexity_text
from orkbench_tui.runner.tokenizer import Tokenizer
from orkbench_tui.settings import Settings
from orkbench_tui.target import open_target
from tests.reference.decoder import ReferenceDecoder

WINDOW = 512
LIMITS = {"float32": 0.001, "w8a8": 0.01, "w8a8-rot": 0.01}


@dataclass(frozen=True, slots=True)
class _Subject:
    name: str
    tokens: list[int]
    digest: str

    def perplexity(self, model: LogitSource) -> Perplexity:
        return measure(model, self.tokens, window=WINDOW, text_sha256=self.digest, bos_token=None)


def default_model() -> Path:
    """The default model's file; it must have been pulled."""
    entry, path = model_store.locate(Settings().model, locations.models_dir())
    if entry is None or not path.exists():
        raise SystemExit("pull the default model first: ork model pull")
    return path


@contextmanager
def npu_engine(path: Path, scheme: str = "w8a8-rot") -> Iterator[Engine]:
    """An int8 engine with its prompts on the simulated NPU."""
    pack_path = packed_model(path, locations.packs_dir(), lambda *_: None, scheme)
    with OrkPack.open(pack_path) as pack, open_target(Settings.load(target="sim")) as board:
        yield Engine.from_pack(pack, board.open_npu(), context=2048)


def _compare(kind: str, ours: Perplexity, reference: Perplexity) -> None:
    for definition in ("half", "full"):
        mine, theirs = getattr(ours, definition), getattr(reference, definition)
        apart = abs(mine.value / theirs.value - 1)
        verdict = "within" if apart <= LIMITS[kind] else "BEYOND"
        print(
            f"{kind} {definition} window: engine {mine.value:.4f}, numpy {theirs.value:.4f}, "
            f"{100 * apart:.4f} % apart, {verdict} {100 * LIMITS[kind]:g} % ({mine.tokens_scored} tokens)",
            flush=True,
        )


def run() -> None:
    path = default_model()
    windows = int(os.environ.get("ORK_BENCH_WINDOWS", "9"))
    text = perplexity_text()
    with GgufFile.open(path) as model:
        tokens = Tokenizer.from_metadata(model.metadata).encode(text)[: windows * WINDOW]
        subject = _Subject(path.stem, tokens, text_digest(text))
        print(f"{path.stem}, {len(tokens)} tokens, window {WINDOW}, text sha256 {subject.digest[:16]}")
        floats = subject.perplexity(Engine.from_floats(GgufWeights(model), context=WINDOW))
        _compare("float32", floats, subject.perplexity(ReferenceDecoder.from_gguf(model)))
        for scheme in ("w8a8", "w8a8-rot"):
            with npu_engine(path, scheme) as engine:
                int8 = subject.perplexity(engine)
            _compare(scheme, int8, subject.perplexity(ReferenceDecoder.from_gguf(model, quant=scheme)))
