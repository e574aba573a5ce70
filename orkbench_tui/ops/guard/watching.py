"""Effects that tell what is being done: for screens that follow a guarded operation live."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from orkbench_tui.ops.guard.effects import Effects

__all__ = ["event_in_words", "watched"]


class _Watched:
    """All effects are those of ``inner``; each journal line is told once it is on the disk."""

    def __init__(self, inner: Effects, hear: Callable[[str], None]) -> None:
        self._inner = inner
        self._hear = hear

    def record(self, journal: Path, line: bytes) -> None:
        self._inner.record(journal, line)
        if words := event_in_words(line):
            self._hear(words)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def watched(effects: Effects, hear: Callable[[str], None]) -> Effects:
    """``effects``, with each journal line told to ``hear`` in words."""
    return cast(Effects, _Watched(effects, hear))


_EVENTS = {
    "intent": "step {step}: begun",
    "done": "step {step}: done",
    "failed": "step {step}: failed, {why}",
    "undo": "step {step}: being taken back",
    "undone": "step {step}: taken back",
    "end": "ended: {outcome}",
}


def event_in_words(line: bytes) -> str:
    """A journal line as a person reads it, steps counted from 1; "" for what is no news."""
    event = json.loads(line)
    name = event.get("event")
    if name == "begin":
        return f"journal {event['id']}, {len(event['steps'])} steps"
    said = _EVENTS.get(name, "")
    return said.format(
        step=event.get("step", 0) + 1, why=event.get("why", ""), outcome=event.get("outcome", "")
    )
