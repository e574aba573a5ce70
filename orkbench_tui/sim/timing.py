"""Predicted times from published figures. Everything here is labelled ``predicted`` where it is shown.

Sources: docs/fidelity.md, "time constants". Multiply-accumulate rate and memory traffic overlap, so
a program takes the longer of the two; every program of a chain adds its own floor.
"""

from __future__ import annotations

__all__ = ["FIRST_TOUCH_NS", "RESET_NS", "SUBMIT_FLOOR_NS", "element_wise_ns", "program_ns"]

SUBMIT_FLOOR_NS = 132_000
"""A blocking submit of nothing, as its caller sees it."""

PROGRAM_FLOOR_NS = 4_380
WEIGHT_BYTES_PER_NS = 10.8
MACS_PER_NS = {4: 2048.0, 8: 1024.0, 16: 512.0, 32: 256.0}
"""Multiply-accumulates of one core at 1 GHz, by input bits. int8 is published: 1024 a cycle, 2 TOPS. The
others are assumed: int4 twice that, 16-bit formats half, tf32 a quarter.
"""

RESET_NS = 105_000_000

FIRST_TOUCH_NS = 2_225_000
"""Making a domain on the first switch to it: twelve took 26.7 ms. Later switches are not charged."""


def program_ns(macs: int, weight_bytes: int, bits: int = 8) -> int:
    """Time of one matmul program in a running chain, in nanoseconds; ``bits`` of an input element."""
    return int(PROGRAM_FLOOR_NS + max(weight_bytes / WEIGHT_BYTES_PER_NS, macs / MACS_PER_NS[bits]))


def element_wise_ns(traffic_bytes: int) -> int:
    """Time of one stand-alone element-wise program in a running chain, in nanoseconds.

    Assumed: bytes read and written at the published rate of the weight DMA.
    """
    return int(PROGRAM_FLOOR_NS + traffic_bytes / WEIGHT_BYTES_PER_NS)
