"""A roadmap page as items with a state: what is open, done, ruled out, and what corrected it since.

The page is plain text: headings ``Tier N — title``, ``NEXT: …`` and ``Forward-looking: …``, items that begin with a
mark and an id (``✅ 1a. …``), remarks such as ``⚠️ SUPERSEDED (date) — …`` and ``4b gates 4a``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from enum import StrEnum

from orkbench_tui.errors import InvalidFileError

__all__ = ["Item", "Roadmap", "State", "parse_roadmap"]


class State(StrEnum):
    NOT_STARTED = "not started"
    IN_PROGRESS = "in progress"
    DONE = "done"
    RULED_OUT = "ruled out"
    DEFERRED = "deferred"
    CRAFT = "craft"
    SUPERSEDED = "superseded"


_MARKS = {
    "⬜": State.NOT_STARTED,
    "🔬": State.IN_PROGRESS,
    "🟨": State.IN_PROGRESS,
    "✅": State.DONE,
    "❌": State.RULED_OUT,
    "⛔": State.RULED_OUT,
    "⚖": State.RULED_OUT,
    "🎨": State.CRAFT,
}
_MARK = f"[{''.join(_MARKS)}]"
_HEADING = re.compile(
    r"(?:Tier (?P<tier>\d{1,2})\b|(?P<next>NEXT)\b|(?P<forward>Forward-looking)\b)\s*[—:–-]\s*(?P<title>.+)"
)
_ITEM = re.compile(
    rf"-?\s*(?P<mark>{_MARK})\ufe0f?(?:/{_MARK})?\s*(?P<id>[0-9]{{1,2}}[a-z](?:-[ivx]+)?|M[0-9][a-z]?)\b\s*[.—–:-]?\s*(?P<text>.+)"
)
_SUPERSEDED = re.compile(r"⚠?\ufe0f?\s*SUPERSEDED\b(?:\s*\([^)]*\))?\s*[—–:-]\s*(?P<text>.+)")
_GATES = re.compile(r"\b(?P<first>[0-9]{1,2}[a-z]) gates (?P<then>[0-9]{1,2}[a-z])\b")
_TITLE_END = re.compile(r"(?<=[.:])\s|\s—\s")


@dataclass(frozen=True, slots=True)
class Item:
    """``tier`` is a number, ``NEXT`` or ``Forward-looking``; ``id`` is "" for the tier itself.

    ``evidence`` is what its line says beyond the title, ``correction`` what replaced it, ``requires`` the items
    that come first.
    """

    tier: str
    id: str
    title: str
    state: State
    evidence: str = ""
    correction: str = ""
    requires: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Roadmap:
    items: tuple[Item, ...]
    _by_id: dict[str, Item] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        known: dict[str, Item] = {}
        for item in self.items:
            known.setdefault(item.id or item.tier, item)
        object.__setattr__(self, "_by_id", known)

    def item(self, name: str) -> Item:
        """By id, or a tier by its number or word; KeyError when there is none."""
        return self._by_id[name]

    @property
    def tiers(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(item.tier for item in self.items))

    def waits_for(self, name: str) -> tuple[str, ...]:
        """The required items that are not done; an item may begin when there are none."""
        return tuple(
            first
            for first in self.item(name).requires
            if first not in self._by_id or self._by_id[first].state is not State.DONE
        )


def parse_roadmap(text: str) -> Roadmap:
    """Items of a page in its order. A tier whose heading comes twice is kept where it has more to say.

    Raises:
        InvalidFileError: there is no tier in it.
    """
    found = list(_items(text))
    if not found:
        raise InvalidFileError("a roadmap", why="no heading `Tier N — title` in it")
    gates: dict[str, list[str]] = {}
    for match in _GATES.finditer(text):
        gates.setdefault(match["then"], []).append(match["first"])
    unique: dict[tuple[str, str], Item] = {}
    for item in found:
        key = item.tier, item.id
        if key not in unique or len(item.evidence) > len(unique[key].evidence):
            kept = unique.get(key)
            unique[key] = (
                item if kept is None or item.correction else replace(item, correction=kept.correction)
            )
    return Roadmap(
        tuple(
            replace(item, requires=tuple(dict.fromkeys(gates.get(item.id, ())))) for item in unique.values()
        )
    )


def _items(text: str) -> Iterator[Item]:
    tier: Item | None = None
    for line in map(str.strip, text.splitlines()):
        if heading := _HEADING.match(line):
            if tier is not None:
                yield tier
            name = heading["tier"] or heading["next"] or "Forward-looking"
            tier = Item(name, "", heading["title"], _state(heading["title"], State.NOT_STARTED))
        elif tier is None:
            continue
        elif item := _ITEM.match(line):
            title, evidence = _split(item["text"])
            yield Item(tier.tier, item["id"], title, _state(title, _MARKS[item["mark"]]), evidence)
        elif superseded := _SUPERSEDED.match(line):
            correction = "; ".join(filter(None, (tier.correction, superseded["text"])))
            tier = replace(tier, state=State.SUPERSEDED, correction=correction)
        elif not tier.evidence and line:
            tier = replace(tier, evidence=line)
    if tier is not None:
        yield tier


def _state(title: str, by_mark: State) -> State:
    marks = [_MARKS[mark] for mark in re.findall(_MARK, title)]
    state = marks[0] if marks else by_mark
    return State.DEFERRED if re.search(r"\bDEFERRED\b|\(deferred\)", title) else state


def _split(text: str) -> tuple[str, str]:
    parts = _TITLE_END.split(text, maxsplit=1)
    return parts[0].rstrip(".: "), parts[1] if len(parts) > 1 else ""
