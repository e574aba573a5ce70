"""Streamed text broken at words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orkbench_tui.cli.word_wrap import WordWrap


def wrapped(text: str, columns: int, pieces: int = 1) -> str:
    wrap = WordWrap(lambda: columns)
    return "".join(wrap.push(text[i : i + pieces]) for i in range(0, len(text), pieces)) + wrap.finish()


@pytest.mark.parametrize(
    ("text", "columns", "shown"),
    [
        ("one two three", 9, "one two\nthree"),
        ("one two three", 13, "one two three"),
        ("one  two", 8, "one  two"),
        ("    code here", 9, "    code\nhere"),
        ("a\n\n  b", 5, "a\n\n  b"),
        ("see https://example.org/long now", 8, "see\nhttps://example.org/long\nnow"),
        ("日本語の文", 6, "日本語\nの文"),
        ("ab 日本", 5, "ab 日\n本"),
        ("one two three", 0, "one two three"),
    ],
)
def test_words_move_to_the_next_line_as_a_whole(text: str, columns: int, shown: str) -> None:
    assert wrapped(text, columns) == shown


@given(st.text("ab 日\n\t", max_size=60), st.integers(1, 20), st.integers(1, 7))
def test_pieces_do_not_matter_and_nothing_but_space_changes(text: str, columns: int, pieces: int) -> None:
    shown = wrapped(text, columns, pieces)
    assert shown == wrapped(text, columns)
    assert "".join(shown.split()) == "".join(text.split())


@given(st.lists(st.text("abcd", min_size=1, max_size=6), min_size=1, max_size=30), st.integers(6, 30))
def test_no_line_is_wider_than_the_terminal(words: list[str], columns: int) -> None:
    lines = wrapped(" ".join(words), columns).split("\n")
    assert max(map(len, lines)) <= columns
    assert [word for line in lines for word in line.split()] == words


def test_a_word_shows_when_it_is_complete() -> None:
    wrap = WordWrap(lambda: 20)
    assert [wrap.push(piece) for piece in ("He", "llo", " wor", "ld", "\n")] == [
        "",
        "",
        "Hello",
        "",
        " world\n",
    ]


def test_nothing_is_held_back_where_there_is_no_margin() -> None:
    wrap = WordWrap(lambda: 0)
    assert [wrap.push("He"), wrap.push("llo ")] == ["He", "llo "]
