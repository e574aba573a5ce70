"""What one rendering of a chat template may use: steps, seconds, and how much text and how many values it builds."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from jinja2.utils import Namespace

__all__ = ["MAX_TEXT_CHARS", "Budget", "BudgetError", "require_product", "too_long"]

MAX_STEPS = 200_000
MAX_TEXT_CHARS = 4 << 20
"""Characters of a text, and the weight of any one value with all it holds."""
MAX_BUILT = 256 << 20
"""The weight of all values one rendering builds, since some may be alive at once."""
MAX_SECONDS = 5.0
# About what they take in memory, a character being 1.
_ELEMENT, _ENTRY, _CONTAINER, _PIECE = 8, 16, 256, 64


class BudgetError(Exception):
    """The template ran too long or built too much."""


def too_long() -> BudgetError:
    return BudgetError(f"more than {MAX_TEXT_CHARS} characters, or as much in lists")


def require_product(left: Any, right: Any) -> None:
    """Refuse ``text * number``, and numbers that grow without end, before they are built."""
    for one, other in ((left, right), (right, left)):
        if (
            isinstance(one, str | list | tuple)
            and isinstance(other, int)
            and len(one) * other > MAX_TEXT_CHARS
        ):
            raise too_long()
    if isinstance(left, int) and isinstance(right, int) and left.bit_length() + right.bit_length() > 1024:
        raise BudgetError("a number of more than 1024 bits")


@dataclass(slots=True)
class Budget:
    """What one rendering may still use."""

    steps: int
    built: int
    deadline: float
    # Weights of what was weighed before, by identity. Each is held, so that no other gets its place.
    _known: dict[int, tuple[Any, int]] = field(default_factory=dict)

    @staticmethod
    def fresh() -> Budget:
        return Budget(MAX_STEPS, MAX_BUILT, time.monotonic() + MAX_SECONDS)

    def spend(self) -> None:
        """One step of a loop, a call, or a piece of text."""
        self.steps -= 1
        if self.steps < 0:
            raise BudgetError(f"more than {MAX_STEPS} steps")
        self._tick()

    def take(self, value: Any) -> Any:
        """``value``, a new one, or BudgetError."""
        self.built -= self.weigh(value) + (_CONTAINER if isinstance(value, list | tuple | dict) else _PIECE)
        if self.built < 0:
            raise BudgetError(f"more than {MAX_BUILT} characters in all, or as much in lists")
        return value

    def weigh(self, value: Any) -> int:
        """How much ``value`` is with all it holds, something held twice counting twice.

        Written out, a list that holds one list a thousand times, which holds another a thousand times, is a
        million elements: so it counts, however little memory it takes. Lists and dicts do not change in a
        rendering; a namespace does, so what holds one is weighed anew each time.

        Raises:
            BudgetError: more than ``MAX_TEXT_CHARS``; counting ends there.
        """
        self._tick()
        total, changing, unweighed = 0, False, [value]
        while unweighed:
            found = unweighed.pop()
            if isinstance(found, str | bytes):
                total += len(found)
            elif isinstance(found, list | tuple | dict | Namespace):
                if known := self._known.get(id(found)):
                    total += known[1]
                elif isinstance(found, Namespace):
                    changing = True
                    unweighed.append(object.__getattribute__(found, "_Namespace__attrs"))
                elif isinstance(found, dict):
                    total += _ENTRY * len(found)
                    unweighed += found.keys()
                    unweighed += found.values()
                else:
                    total += _ELEMENT * len(found)
                    unweighed += found
            total += 1
            if total > MAX_TEXT_CHARS:
                raise too_long()
        if not changing and isinstance(value, list | tuple | dict):
            self._known[id(value)] = value, total
        return total

    def _tick(self) -> None:
        if time.monotonic() > self.deadline:
            raise BudgetError(f"more than {MAX_SECONDS:.0f} s")
