"""What experts on the NPU would cost in submits alone: counts times a published floor, before any arithmetic.

It is why a matmul of one expert can be faster on the NPU and a model of experts slower.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from orkbench_tui.driver.timing.constants import value

__all__ = ["PROJECTIONS", "Submits", "floor_s", "submits_of"]

PROJECTIONS = 3
"""gate, up and down."""


@dataclass(frozen=True, slots=True)
class Submits:
    """Of one prompt: a submit for each choice of each token; for each expert that somebody chose, its rows
    grouped; for all such experts of a projection, chained."""

    by_token: int
    by_expert: int
    chained: int


def submits_of(trace: NDArray[np.int32]) -> Submits:
    """``trace`` holds the experts of each token, [layers, tokens, used]."""
    active = sum(len(np.unique(layer)) for layer in trace)
    return Submits(PROJECTIONS * trace.size, PROJECTIONS * active, PROJECTIONS * len(trace))


def floor_s(count: int, constant: str = "expert_floor") -> float:
    """Seconds of ``count`` submits (``expert_floor``) or linked programs (``expert_program``), predicted."""
    return count * value(constant) / 1e9
