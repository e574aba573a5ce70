"""Texts shipped for measurements; where they come from is in README.md beside this file."""

from __future__ import annotations

from importlib.resources import files

__all__ = ["PERPLEXITY_TEXT", "perplexity_text"]

PERPLEXITY_TEXT = "britannica-1911-shakespeare.txt"


def perplexity_text() -> str:
    """The standard text of perplexity figures: 21,008 characters of English prose, public domain."""
    return (files(__package__) / PERPLEXITY_TEXT).read_text(encoding="utf-8")
