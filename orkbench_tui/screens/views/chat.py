"""The conversation as lines: questions, answers as plain text, figures. Nothing in an answer is markup."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from rich.cells import cell_len

from orkbench_tui.plain_text import streamed
from orkbench_tui.screens.text_line import Line, foreign, line
from orkbench_tui.screens.view_state import ViewState
from orkbench_tui.screens.views.section import title

__all__ = ["Chat", "Turn", "chat_body", "chat_lines", "wrapped_cells"]

_ROLE = {"question": "asked", "answer": "answer", "figures": "dim", "note": "notice", "error": "error"}


@dataclass(frozen=True, slots=True)
class Turn:
    """``kind`` is question, answer, figures, note or error."""

    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class Chat:
    """What the page shows. ``up`` is how many lines the reader has gone back from the newest."""

    heading: str = "no model"
    state: str = "closed"
    turns: tuple[Turn, ...] = ()
    used: int | None = None
    size: int | None = None
    progress: str = ""
    up: int = 0

    def said(self, kind: str, text: str) -> Chat:
        return replace(self, turns=(*self.turns, Turn(kind, text)), up=0)

    def streamed(self, text: str) -> Chat:
        """``text`` appended to the answer under way."""
        last = self.turns[-1] if self.turns else None
        if last is None or last.kind != "answer":
            return replace(self, turns=(*self.turns, Turn("answer", text)))
        return replace(self, turns=(*self.turns[:-1], Turn("answer", last.text + text)))


@lru_cache(512)
def wrapped_cells(text: str, width: int) -> tuple[str, ...]:
    """``text`` in lines of at most ``width`` cells: its own line ends stay, words are kept whole where they fit."""
    lines: list[str] = []
    for paragraph in text.expandtabs(4).split("\n"):
        current = ""
        for word in _words(paragraph):
            if cell_len(current + word.rstrip()) <= width:
                current += word
                continue
            if current.strip():
                lines.append(current.rstrip())
                current = ""
            while cell_len(word.rstrip()) > width:
                head = _head(word, width)
                lines.append(head)
                word = word[len(head) :]
            current += word
        lines.append(current.rstrip())
    return tuple(lines)


def _words(paragraph: str) -> list[str]:
    """Words with the spaces after them; leading spaces are a word of their own."""
    words: list[str] = []
    start = 0
    for index in range(1, len(paragraph)):
        if paragraph[index - 1] == " " and paragraph[index] != " ":
            words.append(paragraph[start:index])
            start = index
    return [*words, paragraph[start:]] if paragraph else []


def _head(word: str, width: int) -> str:
    """As much of a long word as fits, at least one character."""
    for end in range(len(word), 1, -1):
        if cell_len(word[:end]) <= width:
            return word[:end]
    return word[:1]


def chat_body(chat: Chat, state: ViewState, width: int) -> list[Line]:
    body: list[Line] = []
    for index, turn in enumerate(chat.turns):
        role = _ROLE[turn.kind]
        lead = f" {state.glyphs.cursor} " if turn.kind == "question" else "   "
        if turn.kind == "question" and index:
            body.append(())
        for number, text in enumerate(wrapped_cells(streamed(turn.text), max(width - 5, 10))):
            body.append(line((lead if number == 0 else "   ", "key"), (text.replace("\n", " "), role)))
    return body


def chat_lines(chat: Chat, state: ViewState, width: int, height: int) -> list[Line]:
    context = ""
    if chat.used is not None and chat.size:
        context = f"{chat.used} of {chat.size} tokens"
    right = line((", ".join(part for part in (chat.state, context) if part), "dim"))
    lines = [title(f"Chat {state.glyphs.dot} {foreign(chat.heading)}", right, width, state.glyphs)]
    body = chat_body(chat, state, width)
    if not body and not chat.progress:
        body = [
            line((text, "dim"))
            for text in (
                " i writes a question; the model is opened with the first one",
                " m chooses another model; esc stops an answer; w lets go of the NPU",
                " answers are shown as plain text; the same without screens: ork run chat",
            )
        ]
    if chat.progress:
        body.append(line((f"   {foreign(chat.progress)}", "notice")))
    room = max(1, height - 1)
    last = max(0, len(body) - min(chat.up, max(0, len(body) - room)))
    shown = body[max(0, last - room) : last]
    if chat.up and last < len(body):
        shown[-1:] = [line((f" {len(body) - last} lines below; G or j goes on", "notice"))]
    return [*lines, *shown]
