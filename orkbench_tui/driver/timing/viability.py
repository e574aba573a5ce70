"""The bar for another precision on the NPU: near int8 in speed and near the float model in perplexity."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["SLOWER_MOST", "WORSE_MOST", "Viability", "viability"]

SLOWER_MOST = 2.0
"""Times int8's submits of a matmul, which is what its time follows."""

WORSE_MOST = 1.25
"""Times the baseline's perplexity, above which text falls apart: between the 1.22 of int4 in groups, which reads
well, and the 5.3 of one scale a channel, which does not."""


@dataclass(frozen=True, slots=True)
class Viability:
    """``reasons`` say what misses the bar; none means it is worth its wiring."""

    reasons: tuple[str, ...]

    @property
    def viable(self) -> bool:
        return not self.reasons


def viability(submits: float, perplexity: float, baseline: float, *, int8_submits: float = 1) -> Viability:
    """Judge a precision by its submits of one matmul and its perplexity on the same text as ``baseline``.

    Raises:
        ValueError: a figure that is not positive.
    """
    if min(submits, perplexity, baseline, int8_submits) <= 0:
        raise ValueError("submits and perplexities are positive")
    slower, worse = submits / int8_submits, perplexity / baseline
    reasons = []
    if slower > SLOWER_MOST:
        reasons.append(f"{slower:g} times the submits")
    if worse > WORSE_MOST:
        reasons.append(f"{worse:.2f} times the perplexity")
    return Viability(tuple(reasons))
