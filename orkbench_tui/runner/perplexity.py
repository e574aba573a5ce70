"""Perplexity of a model on a text, under the two definitions in use, always with what is needed to compare it.

The tokens are cut into windows that do not overlap; the remainder is dropped; every window starts from
an empty cache. Half window, as llama-perplexity: the second half of each window is scored. Full window:
every position that has a predecessor. The two differ by far more than two back ends do.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from orkbench_tui.errors import UsageError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Chunk", "Estimate", "LogitSource", "Perplexity", "measure", "text_digest", "token_nlls"]

_ROWS_AT_ONCE = 64


class LogitSource(Protocol):
    """What is measured: an engine, or a reference."""

    def logits_of(self, tokens: Sequence[int]) -> NDArray[np.float32]:
        """Logits [len(tokens), vocabulary] after each token, appended to what the cache holds."""
        ...

    def rewind(self, position: int) -> None:
        """Forget everything from ``position`` on."""
        ...


@dataclass(frozen=True, slots=True)
class Estimate:
    """``value`` is exp of the mean negative log-likelihood; ``uncertainty`` its sampling error.

    The error is that of the text: it does not bound the difference of two back ends on the same tokens.
    """

    value: float
    uncertainty: float
    tokens_scored: int

    @classmethod
    def of(cls, nlls: NDArray[np.float64]) -> Estimate:
        count = len(nlls)
        mean = float(nlls.mean())
        variance = float((nlls * nlls).mean()) - mean * mean
        value = math.exp(mean) if mean < 700 else math.inf
        error = value * math.sqrt(max(0.0, variance) / (count - 1)) if count > 1 else math.nan
        return cls(value, error, count)


@dataclass(frozen=True, slots=True)
class Chunk:
    """One window: its own perplexities and the running ones up to and with it."""

    index: int
    half: float
    full: float
    running_half: float
    running_full: float


@dataclass(frozen=True, slots=True, eq=False)
class Perplexity:
    """``half`` and ``full`` with the conditions of the measurement.

    ``bos`` tells the policy: "none", or "replaces the first token of each window". ``nlls`` are those of every
    scored token of the full definition, window after window; ``half_nlls`` those of the half one.
    """

    half: Estimate
    full: Estimate
    chunks: tuple[Chunk, ...]
    window: int
    text_sha256: str
    text_tokens: int
    bos: str
    nlls: NDArray[np.float64]
    half_nlls: NDArray[np.float64]

    def as_dict(self) -> dict[str, Any]:
        def estimate(which: Estimate) -> dict[str, Any]:
            return {
                "ppl": which.value,
                "uncertainty": which.uncertainty,
                "tokens_scored": which.tokens_scored,
            }

        return {
            "ppl_half": self.half.value,
            "ppl_full": self.full.value,
            "tokens": self.full.tokens_scored,
            "nll": [float(value) for value in self.nlls[: self.window - 1]],
            "half_window": estimate(self.half),
            "full_window": estimate(self.full),
            "window": self.window,
            "chunks": [
                {
                    "index": chunk.index,
                    "half": chunk.half,
                    "full": chunk.full,
                    "running_half": chunk.running_half,
                    "running_full": chunk.running_full,
                }
                for chunk in self.chunks
            ],
            "text_sha256": self.text_sha256,
            "text_tokens": self.text_tokens,
            "bos": self.bos,
        }


def text_digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def token_nlls(logits: NDArray[np.float32], targets: Sequence[int]) -> NDArray[np.float64]:
    """Negative log-likelihood of ``targets[i]`` under row i; log-softmax in float64 over the float32 logits."""
    import numpy as np

    wanted = np.asarray(targets, dtype=np.int64)
    out = np.empty(len(wanted), dtype=np.float64)
    # A whole window of a large vocabulary in float64 would be hundreds of MB.
    for first in range(0, len(wanted), _ROWS_AT_ONCE):
        ids = wanted[first : first + _ROWS_AT_ONCE]
        rows = logits[first : first + len(ids)].astype(np.float64)
        top = rows.max(axis=1)
        total = np.log(np.exp(rows - top[:, None]).sum(axis=1)) + top
        out[first : first + len(ids)] = total - rows[np.arange(len(ids)), ids]
    return out


def measure(
    model: LogitSource,
    tokens: Sequence[int],
    *,
    window: int,
    text_sha256: str,
    bos_token: int | None,
    windows: int | None = None,
    progress: Callable[[Chunk, int], None] | None = None,
) -> Perplexity:
    """Both perplexities of ``model`` over ``tokens`` (the whole text, BOS included where the vocabulary adds it).

    ``bos_token`` replaces the first token of each window; None where the vocabulary adds none. ``progress``
    gets every chunk as it is done and the number of chunks. ``windows`` bounds how many are measured. UsageError for a window under 4 or a text shorter
    than two windows.
    """
    import numpy as np

    if window < 4:
        raise UsageError(f"window {window} is too short", why="at least 4 tokens are needed", do="use 512")
    if len(tokens) < 2 * window:
        raise UsageError(
            f"the text has {len(tokens)} tokens",
            why=f"a window of {window} needs at least {2 * window}",
            do="use a longer text or a shorter window",
        )
    count = min(len(tokens) // window, windows or len(tokens))
    first_scored = window // 2
    half_parts: list[NDArray[np.float64]] = []
    full_parts: list[NDArray[np.float64]] = []
    chunks: list[Chunk] = []
    for index in range(count):
        part = list(tokens[index * window : (index + 1) * window])
        if bos_token is not None:
            part[0] = bos_token
        model.rewind(0)
        nlls = token_nlls(model.logits_of(part), part[1:])
        # nlls[i] scores position i + 1; the second half begins after its first token.
        full_parts.append(nlls)
        half_parts.append(nlls[first_scored:])
        chunk = Chunk(
            index=index,
            half=Estimate.of(half_parts[-1]).value,
            full=Estimate.of(nlls).value,
            running_half=Estimate.of(np.concatenate(half_parts)).value,
            running_full=Estimate.of(np.concatenate(full_parts)).value,
        )
        chunks.append(chunk)
        if progress is not None:
            progress(chunk, count)
    return Perplexity(
        half=Estimate.of(np.concatenate(half_parts)),
        full=Estimate.of(np.concatenate(full_parts)),
        chunks=tuple(chunks),
        window=window,
        text_sha256=text_sha256,
        text_tokens=len(tokens),
        bos="none" if bos_token is None else "replaces the first token of each window",
        nlls=np.concatenate(full_parts),
        half_nlls=np.concatenate(half_parts),
    )
