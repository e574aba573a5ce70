"""How a prompt is cut: into chunks when they run one after the other, into micro-batches when two overlap."""

from __future__ import annotations

__all__ = ["IN_FLIGHT", "LEAST_TOKENS", "micro_batches", "serial_chunks"]

IN_FLIGHT = 2
"""Micro-batches begun and not finished, each with buffers of its own."""

_SIZES = (32, 64, 128)
# Wide matmuls of large models go in tiles of 64 rows anyway, so smaller micro-batches read no weight more often.

LEAST_TOKENS = IN_FLIGHT * _SIZES[0]
"""Fewer tokens do not overlap: what a micro-batch of less than 32 rows hides is smaller than a submit."""


def serial_chunks(tokens: int, rows: int) -> list[int]:
    """Sizes of chunks of up to ``rows``, the last one shorter."""
    return [min(rows, tokens - first) for first in range(0, tokens, rows)]


def micro_batches(tokens: int) -> list[int]:
    """Sizes of at least two micro-batches, none of a single row: one row would not go to the NPU.

    Raises:
        ValueError: fewer than ``LEAST_TOKENS``.
    """
    if tokens < LEAST_TOKENS:
        raise ValueError(f"{tokens} tokens, at least {LEAST_TOKENS} overlap")
    half = -(-tokens // IN_FLIGHT)
    sizes = serial_chunks(tokens, next((size for size in _SIZES if size >= half), _SIZES[-1]))
    if sizes[-1] == 1:
        sizes[-2:] = [sizes[-2] - 1, 2]
    return sizes
