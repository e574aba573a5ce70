"""What an operation is, and what a plan for one board says: data, printable without a board.

An operation is declared once, in ``ops/operations``; the command line, the documentation and the journal take
its words from there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from orkbench_tui.errors import ExitCode

if TYPE_CHECKING:
    from orkbench_tui.ops.guard.board import GuardedBoard

__all__ = ["Check", "Operation", "Plan", "Risk", "Step", "Words"]

Words = Mapping[str, str]
"""What the user asked for beyond the operation's name, by parameter."""


class Risk(StrEnum):
    """How far a mistake reaches; decides what must be confirmed and how."""

    REVERSIBLE = "reversible"
    INTERRUPTS = "interrupts"
    UNREACHABLE = "unreachable"


@dataclass(frozen=True, slots=True)
class Check:
    """One line of the preflight. ``state`` is pass, warn or fail; ``evidence`` quotes what was read."""

    state: str
    what: str
    evidence: str = ""

    @staticmethod
    def of(good: bool, what: str, evidence: str = "", *, otherwise: str = "fail") -> Check:
        return Check("pass" if good else otherwise, what, evidence)


@dataclass(frozen=True, slots=True)
class Step:
    """One effect: ``verb`` (see verbs.py) on ``subject``, from ``before`` to ``after``.

    ``before`` is None where the verb has no state to go back to. ``source`` is a file or folder of this machine
    that an installation copies.
    """

    verb: str
    subject: str
    before: str | None
    after: str
    why: str = ""
    source: str = ""

    def document(self) -> dict[str, Any]:
        return {
            "verb": self.verb,
            "subject": self.subject,
            "before": self.before,
            "after": self.after,
            "why": self.why,
            "source": self.source,
        }

    @staticmethod
    def parsed(document: Mapping[str, Any]) -> Step:
        """Raises KeyError or TypeError when a field is missing or of another kind."""
        before = document["before"]
        texts = [document[name] for name in ("verb", "subject", "after", "why")]
        texts.append(document.get("source", ""))
        if not all(isinstance(text, str) for text in texts) or not isinstance(before, str | None):
            raise TypeError("a step's fields are texts")
        return Step(texts[0], texts[1], before, *texts[2:])


@dataclass(frozen=True, slots=True)
class Plan:
    """What would be done on one board, in order. ``facts`` are label and value as read.

    ``phrase`` is what must be typed after the host's name for an operation that can make the board unreachable.
    """

    operation: Operation
    host: str
    facts: tuple[tuple[str, str], ...] = ()
    checks: tuple[Check, ...] = ()
    steps: tuple[Step, ...] = ()
    verified_by: str = ""
    phrase: str = ""
    words: Words = field(default_factory=dict)

    @property
    def refusals(self) -> tuple[Check, ...]:
        return tuple(check for check in self.checks if check.state == "fail")

    @property
    def refusal(self) -> str:
        """The first check that failed, and what was seen; "" when none did. A check is named by what should hold."""
        if not self.refusals:
            return ""
        first = self.refusals[0]
        return f"check failed: {first.what}" + (f": {first.evidence}" if first.evidence else "")


@dataclass(frozen=True, slots=True)
class Operation:
    """``root`` says what needs root ("" for nothing), ``lasting`` what cannot be undone ("" for nothing).

    ``holds_npu``: no other program may use the NPU meanwhile. ``failure`` is the exit code when a step failed
    and there was nothing to undo. ``options`` are the words it takes, name and meaning. ``command`` is how it is
    called where that is not ``ork board NAME``. ``second_word`` is what the ``phrase`` of its plans is, where one
    is wanted: the word itself, or in capitals what it stands for.
    """

    name: str
    title: str
    risk: Risk
    why: str
    root: str
    lasting: str
    plan: Callable[[GuardedBoard, Words], Plan]
    holds_npu: bool = False
    failure: ExitCode = ExitCode.UNHEALTHY
    options: tuple[tuple[str, str], ...] = ()
    command: str = ""
    second_word: str = "RELEASE"

    @property
    def called(self) -> str:
        """The command that runs it."""
        return self.command or f"ork board {self.name}"
