"""Streamed text broken at words: a word moves to the next line as a whole instead of being cut at the margin."""

from __future__ import annotations

from collections.abc import Callable

from orkbench_tui.cli import output

__all__ = ["WordWrap", "terminal_columns"]

_TAB_CELLS = 8
_WIDE_CELLS = 2


def terminal_columns() -> int:
    """Cells in a row of the terminal on standard output; 0 where it is none or does not say."""
    return output.columns(0)


class WordWrap:
    """``push`` pieces as they come; what is safe to show comes back. ``finish`` gives the rest.

    Only the word being spelt is held back. ``columns`` is asked anew for each piece, so a resized terminal is
    followed; 0 means no margin. Spaces at the beginning of a line stay (they indent); a word wider than the line
    is left to the terminal. Wide characters (CJK) may be broken between any two.
    """

    def __init__(self, columns: Callable[[], int] = terminal_columns) -> None:
        self._ask_columns = columns
        self._columns = 0
        self._column = 0
        self._gap = ""
        self._word = ""
        self._overlong = False

    def push(self, text: str) -> str:
        self._columns = self._ask_columns()
        if self._columns <= 0:
            return self.finish() + text
        shown: list[str] = []
        for char in text:
            if char == "\n":
                shown += [self._place_word(), "\n"]
                self._gap, self._column, self._overlong = "", 0, False
            elif char in " \t":
                if self._word:
                    shown.append(self._place_word())
                self._gap += char
                self._overlong = False
            elif _cells(char) >= _WIDE_CELLS:
                shown.append(self._place_word())
                self._word, self._overlong = char, False
                shown.append(self._place_word())
            else:
                self._word += char
                if _cells(self._word) >= self._columns:
                    shown.append(self._place_word())
                    self._overlong = True
        return "".join(shown)

    def finish(self) -> str:
        """The word that was held back."""
        shown = self._place_word()
        self._gap = ""
        return shown

    def _place_word(self) -> str:
        word, self._word = self._word, ""
        if not word:
            return ""
        gap, self._gap = self._gap, ""
        cells, gap_cells = _cells(word), self._gap_cells(gap)
        overflows = self._columns > 0 and self._column + gap_cells + cells > self._columns
        if overflows and self._column and not self._overlong:
            gap, gap_cells, self._column = "\n", 0, 0
        self._column += gap_cells + cells
        if self._columns > 0 and self._column > self._columns:
            self._column = self._column % self._columns or self._columns
        return gap + word

    def _gap_cells(self, gap: str) -> int:
        column = self._column
        for char in gap:
            column += _TAB_CELLS - column % _TAB_CELLS if char == "\t" else 1
        return column - self._column


def _cells(text: str) -> int:
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)
