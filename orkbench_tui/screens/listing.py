"""A list with a chosen row: which rows show, and where the choice moves. Pure."""

from __future__ import annotations

__all__ = ["first_shown", "moved"]


def first_shown(chosen: int, count: int, room: int) -> int:
    """The first row to show so that ``chosen`` stands in the middle where it can."""
    return min(max(0, chosen - room // 2), max(0, count - room))


def moved(chosen: int, step: int, count: int) -> int:
    """``chosen`` moved by ``step`` within ``count`` rows; 0 for an empty list."""
    return min(max(0, chosen + step), max(0, count - 1))
