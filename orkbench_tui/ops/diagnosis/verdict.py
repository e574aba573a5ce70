"""What a diagnosis says, and how heavy it is."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

__all__ = ["Level", "Verdict"]


class Level(IntEnum):
    """Severity of a verdict; only what is above INFO makes a board unhealthy."""

    INFO = 0
    LOW = 1
    WARNING = 2
    HIGH = 3
    CRITICAL = 4

    @property
    def word(self) -> str:
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class Verdict:
    """One cause, with what it rests on.

    ``evidence`` quotes lines or readings as found (foreign text); ``advice`` are next steps, first things
    first; ``refuse`` names what the workbench does not do in this state, whoever asks; ``facts`` are figures
    read out of the evidence, None where unknown. ``facts["cause"]`` is ``open`` where two causes fit.
    """

    kind: str
    severity: Level
    title: str
    evidence: tuple[str, ...] = ()
    advice: tuple[str, ...] = ()
    refuse: tuple[str, ...] = ()
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def open_cause(self) -> bool:
        return self.facts.get("cause") == "open"

    def document(self) -> dict[str, Any]:
        return {
            "class": self.kind,
            "severity": self.severity.word,
            "title": self.title,
            "evidence": list(self.evidence),
            "advice": list(self.advice),
            "refuse": list(self.refuse),
            "facts": self.facts,
        }
