"""Texts shipped for measurements; where they come from is in README.md beside this file."""

from __future__ import annotations

from importlib.resources import files

__all__ = ["CALIBRATION_TEXT", "PERPLEXITY_TEXT", "calibration_text", "perplexity_text"]

PERPLEXITY_TEXT = "britannica-1911-shakespeare.txt"
CALIBRATION_TEXT = "britannica-1911-shakespeare-later.txt"


def perplexity_text() -> str:
    """The standard text of perplexity figures: 21,008 characters of English prose, public domain."""
    return (files(__package__) / PERPLEXITY_TEXT).read_text(encoding="utf-8")


def calibration_text() -> str:
    """Later paragraphs of the same article, none of which is in the text perplexities are measured on."""
    return (files(__package__) / CALIBRATION_TEXT).read_text(encoding="utf-8")
