"""How a prompt is cut: into chunks when they run one after the other, into micro-batches when two overlap."""

from __future__ import annotations

__all__ = ["LEAST_TOKENS", "ROWS_PER_CHUNK", "in_flight", "micro_batches", "serial_chunks"]

# More rows make the NPU's weight traffic cheaper, up to where activations leave the caches.
ROWS_PER_CHUNK = 256

_FEWEST = 2
_LONG = 8

_SIZES = (32, 64, 128)
# Wide matmuls of large models go in tiles of 64 rows anyway, so smaller micro-batches read no weight more often.

LEAST_TOKENS = _FEWEST * _SIZES[0]
"""Fewer tokens do not overlap: what a micro-batch of less than 32 rows hides is smaller than a submit."""


def in_flight(count: int) -> int:
    """How many of ``count`` micro-batches are begun and not finished at a time, each with buffers of its own.

    Two, and a third in long prompts: their attention takes so long that one other cannot fill the NPU meanwhile.
    """
    return _FEWEST if count < _LONG else _FEWEST + 1


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
    half = -(-tokens // _FEWEST)
    sizes = serial_chunks(tokens, next((size for size in _SIZES if size >= half), _SIZES[-1]))
    if sizes[-1] == 1:
        sizes[-2:] = [sizes[-2] - 1, 2]
    return sizes
