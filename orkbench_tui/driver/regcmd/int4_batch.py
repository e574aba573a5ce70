"""How much one int4 program of the batch form holds: rows and columns by K, as measured.

Above the rows of a K the numbers are wrong without an error, or the job never starts. Sources:
docs/fidelity.md, "int4 batch form".
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from orkbench_tui.driver import guards

__all__ = ["MEASURED_ROWS", "batch_columns", "batch_rows", "columns_lost"]

MEASURED_ROWS: Mapping[int, int] = MappingProxyType(
    {
        256: 64, 512: 32, 768: 22, 1024: 16, 1536: 11, 2048: 8, 2560: 4, 3072: 4, 3584: 4, 4096: 4, 5120: 3,
        6144: 3, 8192: 2,
    }
)  # fmt: skip
"""Rows that were right alone and as the rest of a larger K, five times the same bits."""

_SHORT_K, _SHORT_ROWS = 128, 128
_MOST_ROWS, _FEWEST_ROWS = 64, 2
_PUBLISHED, _CAUTIOUS = 16384, 12288
_COLUMN_CODES, _GROUP = 131072, 64


def batch_rows(k: int) -> int:
    """Rows one program may have: the measured ones, else what a cautious formula gives.

    Raises:
        RefusedError: fewer than two (GRD-20).
    """
    if k <= _SHORT_K:
        return _SHORT_ROWS
    if k < min(MEASURED_ROWS):
        return _MOST_ROWS
    formula = min(_MOST_ROWS, -(-_PUBLISHED // k))
    rows = min(MEASURED_ROWS[k], formula) if k in MEASURED_ROWS else min(_MOST_ROWS, _CAUTIOUS // k)
    if rows < _FEWEST_ROWS:
        guards.refuse("GRD-20", seen=f"K = {k} leaves {rows} rows, at least {_FEWEST_ROWS} are needed")
    return rows


def batch_columns(k: int) -> int:
    """Columns one program may have, in whole kernel groups."""
    return max(_GROUP, _COLUMN_CODES // k // _GROUP * _GROUP)


def columns_lost(k: int) -> float:
    """The share of columns that rounding to kernel groups gives away."""
    return max(0.0, 1 - batch_columns(k) * k / _COLUMN_CODES)
