"""Choosing the next token: penalties → top-k → top-p → min-p → temperature → draw.

The order and the meaning of each step follow llama.cpp: top-p counts on the probabilities top-k left,
before temperature, and keeps the token that crosses p; temperature comes last.
"""

from __future__ import annotations

import dataclasses
import math
import secrets
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from orkbench_tui.errors import UnhealthyError, UsageError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Sampler", "Sampling"]

# field -> (lowest, highest) allowed
_RANGES: dict[str, tuple[float, float]] = {
    "temperature": (0.0, 100.0),
    "top_k": (0, 1 << 20),
    "top_p": (0.0, 1.0),
    "min_p": (0.0, 1.0),
    "repeat_penalty": (0.01, 100.0),
    "repeat_last_n": (0, 1 << 20),
    "seed": (0, (1 << 63) - 1),
}

# field -> key a GGUF may recommend a value under
_RECOMMENDED: dict[str, str] = {
    "temperature": "general.sampling.temp",
    "top_k": "general.sampling.top_k",
    "top_p": "general.sampling.top_p",
    "min_p": "general.sampling.min_p",
    "repeat_penalty": "general.sampling.penalty_repeat",
    "repeat_last_n": "general.sampling.penalty_last_n",
}


@dataclass(frozen=True, slots=True)
class Sampling:
    """How to choose. Neutral values: top_k 0, top_p 1, min_p 0, repeat_penalty 1; temperature 0 is greedy.

    ``seed`` None draws one. Values outside their range raise UsageError.
    """

    temperature: float = 0.8
    top_k: int = 40
    top_p: float = 0.95
    min_p: float = 0.05
    repeat_penalty: float = 1.0
    repeat_last_n: int = 64
    seed: int | None = None

    def __post_init__(self) -> None:
        for name, (low, high) in _RANGES.items():
            value = getattr(self, name)
            if value is not None and not low <= value <= high:
                raise UsageError(
                    f"--{name.replace('_', '-')} {value} is out of range", why=f"allowed: {low} to {high}"
                )

    @classmethod
    def of(cls, metadata: Mapping[str, Any], **flags: Any) -> Sampling:
        """Defaults, then what the model file recommends (where in range), then flags that are not None."""
        values: dict[str, Any] = {}
        for name, key in _RECOMMENDED.items():
            value = metadata.get(key)
            low, high = _RANGES[name]
            if isinstance(value, int | float) and low <= value <= high:
                values[name] = type(getattr(_DEFAULTS, name))(value)
        values |= {name: value for name, value in flags.items() if value is not None}
        return dataclasses.replace(_DEFAULTS, **values)


_DEFAULTS = Sampling()


class Sampler:
    """A Sampling with its random state. The same seed and logits give the same tokens."""

    def __init__(self, sampling: Sampling) -> None:
        self.sampling = sampling
        self.seed = secrets.randbits(32) if sampling.seed is None else sampling.seed
        self._random: np.random.Generator | None = None

    def pick(self, logits: NDArray[np.float32], history: Sequence[int]) -> int:
        """The next token id.

        Args:
            logits: float32 [vocabulary]; left unchanged.
            history: ids so far, oldest first; the last ``repeat_last_n`` are penalised.

        Raises:
            UnhealthyError: a logit is NaN or infinite.
        """
        import numpy as np

        _require_finite(logits)
        sampling = self.sampling
        scores = _penalised(logits, history, sampling)
        if sampling.temperature == 0.0:
            return int(np.argmax(scores))
        kept = _best(scores, sampling.top_k)
        ordered = scores[kept].astype(np.float64)
        count = min(_top_p_count(ordered, sampling.top_p), _min_p_count(ordered, sampling.min_p))
        weights = _softmax(ordered[:count], sampling.temperature)
        return int(kept[self._draw(weights)])

    def _draw(self, weights: NDArray[np.float64]) -> int:
        import numpy as np

        if self._random is None:
            self._random = np.random.Generator(np.random.PCG64(self.seed))
        edges = np.cumsum(weights)
        place = int(np.searchsorted(edges, self._random.random() * edges[-1], side="right"))
        return min(place, len(weights) - 1)


def _require_finite(logits: NDArray[np.float32]) -> None:
    import numpy as np

    # The sum is finite exactly when no element is NaN or infinite, but for overflow, so it is a cheap first look.
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(logits.sum(dtype=np.float64)):
            return
    bad = int(logits.size - np.isfinite(logits).sum())
    if bad:
        raise UnhealthyError(
            "the model gave an unusable result",
            why=f"{bad} of {logits.size} logits are NaN or infinite",
            do="try --quant f32; if it persists the model file or the NPU is at fault",
        )


def _penalised(
    logits: NDArray[np.float32], history: Sequence[int], sampling: Sampling
) -> NDArray[np.float32]:
    """Divide a positive logit, multiply a negative one, once per distinct token of the recent history."""
    import numpy as np

    recent = history[-sampling.repeat_last_n :] if sampling.repeat_last_n else ()
    if sampling.repeat_penalty == 1.0 or not recent:
        return logits
    seen = np.fromiter(Counter(recent), dtype=np.int64)
    scores = logits.copy()
    values = scores[seen]
    penalty = np.float32(sampling.repeat_penalty)
    scores[seen] = np.where(values > 0, values / penalty, values * penalty)
    return scores


def _best(scores: NDArray[np.float32], count: int) -> NDArray[np.int64]:
    """Ids of the ``count`` highest scores (0: all), best first; the lower id wins a tie."""
    import numpy as np

    if 0 < count < scores.size:
        threshold = np.partition(scores, scores.size - count)[scores.size - count]
        above = np.flatnonzero(scores > threshold)
        level = np.flatnonzero(scores == threshold)[: count - above.size]
        candidates = np.sort(np.concatenate([above, level]))
    else:
        candidates = np.arange(scores.size)
    return candidates[np.argsort(-scores[candidates], kind="stable")]


def _top_p_count(ordered: NDArray[np.float64], p: float) -> int:
    """How many of the best reach probability ``p`` together, the crossing one included."""
    import numpy as np

    if p >= 1.0:
        return int(ordered.size)
    reached = np.cumsum(_softmax(ordered, 1.0))
    return min(int(np.searchsorted(reached, p, side="left")) + 1, int(ordered.size))


def _min_p_count(ordered: NDArray[np.float64], p: float) -> int:
    """How many are at least ``p`` times as likely as the best; never none."""
    import numpy as np

    if p <= 0.0:
        return int(ordered.size)
    return max(1, int(np.count_nonzero(ordered >= ordered[0] + math.log(p))))


def _softmax(ordered: NDArray[np.float64], temperature: float) -> NDArray[np.float64]:
    import numpy as np

    with np.errstate(over="ignore"):
        weights = np.exp((ordered - ordered[0]) / temperature)
    return weights / weights.sum()
