"""Predicted times from published figures. Everything here is labelled ``predicted`` where it is shown.

Sources: docs/fidelity.md, "time constants". Multiply-accumulate rate and memory traffic overlap, so
a program takes the longer of the two; every program of a chain adds its own floor.
"""

from __future__ import annotations

__all__ = ["RESET_NS", "SUBMIT_FLOOR_NS", "program_ns"]

SUBMIT_FLOOR_NS = 132_000
"""A blocking submit of nothing, as its caller sees it."""

PROGRAM_FLOOR_NS = 4_380
WEIGHT_BYTES_PER_NS = 10.8
MACS_PER_NS_INT8 = 1024.0
"""1 GHz, 1024 int8 multiply-accumulates a cycle and core: 2 TOPS."""

RESET_NS = 105_000_000


def program_ns(macs: int, weight_bytes: int) -> int:
    """Time of one program in a running chain, in nanoseconds."""
    return int(PROGRAM_FLOOR_NS + max(weight_bytes / WEIGHT_BYTES_PER_NS, macs / MACS_PER_NS_INT8))
