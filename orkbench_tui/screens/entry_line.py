"""A line being typed: text and cursor, keys applied to it, and how it is drawn. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from rich.cells import cell_len

from orkbench_tui.screens.text_line import Line, Span, foreign

__all__ = ["Entry", "draw_entry", "pasted", "typed"]

MAX_CHARACTERS = 16_384


@dataclass(frozen=True, slots=True)
class Entry:
    """``cursor`` counts characters, 0 to the length."""

    text: str = ""
    cursor: int = 0

    @staticmethod
    def of(text: str) -> Entry:
        return Entry(text, len(text))


def _word_start(entry: Entry) -> int:
    head = entry.text[: entry.cursor].rstrip()
    return head.rfind(" ") + 1


def _cut(entry: Entry, start: int, end: int) -> Entry:
    return Entry(entry.text[:start] + entry.text[end:], start)


def typed(entry: Entry, key: str, character: str | None) -> Entry | None:
    """The entry after a key (Textual's name and its character); None where the key means nothing here."""
    at, text = entry.cursor, entry.text
    moves = {
        "left": max(0, at - 1),
        "right": min(len(text), at + 1),
        "home": 0,
        "ctrl+a": 0,
        "end": len(text),
        "ctrl+e": len(text),
    }
    if key in moves:
        return Entry(text, moves[key])
    cuts = {
        "backspace": (max(0, at - 1), at),
        "delete": (at, at + 1),
        "ctrl+w": (_word_start(entry), at),
        "ctrl+u": (0, at),
        "ctrl+k": (at, len(text)),
    }
    if key in cuts:
        return _cut(entry, *cuts[key])
    if character is not None and character.isprintable() and len(character) == 1:
        return pasted(entry, character)
    return None


def pasted(entry: Entry, text: str) -> Entry:
    """``text`` put in at the cursor; line ends become spaces, control characters do not get in."""
    clean = "".join(c if c.isprintable() else " " if c in "\r\n\t" else "" for c in text)
    clean = clean[: max(0, MAX_CHARACTERS - len(entry.text))]
    return Entry(entry.text[: entry.cursor] + clean + entry.text[entry.cursor :], entry.cursor + len(clean))


def draw_entry(prompt: str, entry: Entry, width: int) -> Line:
    """Prompt, text and a cursor cell in exactly ``width`` cells; a long text shows the part around the cursor."""
    room = max(width - cell_len(prompt) - 1, 1)
    # Backwards from the cursor: a pasted page costs what is shown of it, at every sample.
    start, cells = entry.cursor, 0
    while start and (cells := cells + cell_len(entry.text[start - 1])) <= room - 1:
        start -= 1
    head = entry.text[start : entry.cursor]
    under = entry.text[entry.cursor : entry.cursor + 1] or " "
    used = cell_len(head) + cell_len(under)
    tail = ""
    for character in entry.text[entry.cursor + 1 :]:
        if used + cell_len(tail + character) > room:
            break
        tail += character
    pad = max(0, width - cell_len(prompt) - used - cell_len(tail))
    return (
        Span(prompt, "key"),
        Span(foreign_cells(head), "entry"),
        Span(foreign_cells(under), "entry_cursor"),
        Span(foreign_cells(tail) + " " * pad, "entry"),
    )


def foreign_cells(text: str) -> str:
    """``text`` without control characters, its spaces kept."""
    return text if text.isprintable() else foreign(text)
