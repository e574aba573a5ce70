"""Register words in a record of ``ork sim exec --record``."""

from __future__ import annotations

import json
from typing import Any

__all__ = ["is_record", "recorded_words"]

_START = b'{"format": "ork-sim-record"'


def is_record(data: bytes) -> bool:
    return data.startswith(_START)


def recorded_words(text: str) -> list[Any]:
    """The words of every program of every submit, in order.

    Raises:
        ValueError: a line is no JSON, or not as records have it.
    """
    words: list[Any] = []
    for number, line in enumerate(text.splitlines(), 1):
        event = json.loads(line)
        if not isinstance(event, dict):
            raise ValueError(f"line {number} is no event")
        for program in event.get("programs", ()):
            words += program["words"]
    return words
