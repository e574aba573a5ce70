"""What a guard is: one row of the tables beside this module."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

__all__ = ["Guard", "Reaction"]


class Reaction(StrEnum):
    """What the guard does. A refusal stands; ``REFUSE_UNLESS`` yields to a probe or a named unsafe setting.

    ``ROUTE``: the work is done, and where the condition cannot arise.
    """

    REFUSE = "refuse"
    REFUSE_UNLESS = "refuse unless"
    ROUTE = "run on CPU"
    WARN = "warn"
    ABSENT = "not offered"


@dataclass(frozen=True, slots=True)
class Guard:
    """``place`` is the part of the program it concerns, ``action`` what happens instead."""

    id: str
    place: str
    reaction: Reaction
    condition: str
    consequence: str
    action: str
    evidence: str
    enforced_in: str = ""
    how: str = ""
    stands_in: str = ""

    @property
    def enforced(self) -> str:
        """``yes``; ``otherwise`` where ``stands_in`` holds it; ``by absence`` where no such path exists; ``not yet``."""
        if self.enforced_in:
            return "yes"
        if self.stands_in:
            return "otherwise"
        return "by absence" if self.how or self.reaction is Reaction.ABSENT else "not yet"
