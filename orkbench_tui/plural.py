"""Counts with their nouns."""

from __future__ import annotations

__all__ = ["counted"]


def counted(value: int, one: str, many: str = "") -> str:
    """``1 domain``, ``2 domains``; ``many`` where the plural is not made by an s."""
    return f"{value} {one if value == 1 else many or one + 's'}"
