"""Two models on the same tokens: the difference of their likelihoods token by token, and how sure it is."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["PairedDifference", "excess", "paired_difference"]

# Of a normal distribution: 95 % lie within this many standard errors.
_INTERVAL = 1.96


@dataclass(frozen=True, slots=True)
class PairedDifference:
    """Mean of (other - first) negative log-likelihood in nats, and its 95 % interval.

    ``ratio`` is that of the perplexities. The rest are sizes of the differences of single tokens.
    """

    mean: float
    low: float
    high: float
    ratio: float
    p50: float
    p99: float
    largest: float
    tokens: int

    @property
    def decided(self) -> bool:
        """Whether the interval leaves out zero."""
        return self.low > 0 or self.high < 0


def paired_difference(first: NDArray[np.float64], other: NDArray[np.float64]) -> PairedDifference:
    """ValueError unless both have scored the same number of tokens, at least two."""
    import numpy as np

    if len(first) != len(other) or len(first) < 2:
        raise ValueError(f"{len(first)} and {len(other)} tokens cannot be paired")
    apart = other - first
    mean = float(apart.mean())
    error = float(apart.std(ddof=1)) / math.sqrt(len(apart))
    size = np.abs(apart)
    return PairedDifference(
        mean=mean,
        low=mean - _INTERVAL * error,
        high=mean + _INTERVAL * error,
        ratio=math.exp(mean),
        p50=float(np.percentile(size, 50)),
        p99=float(np.percentile(size, 99)),
        largest=float(size.max()),
        tokens=len(apart),
    )


def excess(perplexity: float, reference: float) -> float:
    """What a format adds to the float model's perplexity: formats compare by this, not by their perplexities."""
    return perplexity - reference
