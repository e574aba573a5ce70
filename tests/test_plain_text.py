"""Control characters never reach the terminal raw."""

from hypothesis import given
from hypothesis import strategies as st

from orkbench_tui.plain_text import is_safe, one_line, printable, streamed


@given(st.text())
def test_nothing_unsafe_survives(text):
    for made in (printable(text), one_line(text), streamed(text)):
        assert all(is_safe(char) for char in made)


@given(st.text(alphabet=st.characters(categories=["L", "N", "P", "Zs"])))
def test_ordinary_text_is_untouched(text):
    assert printable(text) == text
    assert streamed(text) == text


def test_escapes_are_shown_or_dropped():
    assert printable("a\x1b[31mred") == "a\\x1b[31mred"
    assert streamed("a\x1b[31mred") == "a[31mred"
    assert printable("left‮right") == "left\\u202eright"
    assert printable("c1 \x9b31m") == "c1 \\x9b31m"


def test_one_line_is_one_line_and_cut():
    assert one_line("a\nb\r\nc") == "a b c"
    assert one_line("x" * 500, 10) == "xxxxxxxxx…"
