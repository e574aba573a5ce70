"""What attention over resident keys is bounded by, for those who run it and those who predict it."""

from __future__ import annotations

from orkbench_tui.driver.soc import Soc

__all__ = ["KEY_CONTRACTION", "KEY_STEP", "LEAST_KEYS", "most_keys"]

LEAST_KEYS = 256
"""The NPU's weighted sum over fewer keys gives zeros (GRD-15)."""

KEY_CONTRACTION = 512
"""Depth of the product with the keys, whatever the head's size."""

KEY_STEP = 32
"""Values of a head, and room for keys, come in multiples of this."""


def most_keys(soc: Soc) -> int:
    """Keys are columns of one product and the depth of the other."""
    return min(soc.max_n_per_program, soc.max_k_int8)
