"""Bars and plots from characters."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orkbench_tui.screens.glyphs import ASCII, UNICODE, Glyphs, locale_wants_ascii
from orkbench_tui.screens.plots import bar, plot_rows, spark

values = st.lists(st.none() | st.floats(0, 100), max_size=60)


def test_bar_lengths() -> None:
    assert bar(0.5, 10, UNICODE) == ("█████", "·····")
    assert bar(0.0, 4, UNICODE) == ("", "····")
    assert bar(1.0, 4, UNICODE) == ("████", "")
    assert bar(0.0001, 4, UNICODE)[0] == "▏"
    assert bar(None, 4, UNICODE) == ("", "?···")


@given(st.none() | st.floats(-1, 2), st.integers(0, 80), st.sampled_from([UNICODE, ASCII]))
def test_bars_are_always_as_wide_as_asked(fraction: float | None, width: int, glyphs: Glyphs) -> None:
    filled, empty = bar(fraction, width, glyphs)
    assert len(filled) + len(empty) == width


@given(values, st.integers(0, 50), st.integers(1, 6), st.sampled_from([UNICODE, ASCII]))
def test_plots_have_the_size_asked_for(
    series: list[float | None], width: int, height: int, glyphs: Glyphs
) -> None:
    rows = plot_rows(series, width, height, glyphs)
    assert len(rows) == height and {len(row) for row in rows} <= {width}


def test_plot_heights() -> None:
    assert plot_rows([0, 25, 50, 75, 100], 5, 2, UNICODE) == ["   ▄█", "▁▄███"]


def test_unknown_is_a_gap_and_zero_is_not() -> None:
    assert plot_rows([None, 0.0, None], 4, 1, UNICODE) == ["  ▁ "]


def test_the_newest_value_is_at_the_right_edge() -> None:
    assert plot_rows([0, 0, 100], 2, 1, UNICODE) == ["▁█"]
    assert plot_rows([100], 4, 1, UNICODE) == ["   █"]


def test_spark() -> None:
    assert spark([0, 50, 100, None], UNICODE) == "▁▄█?"


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"TERM": "linux", "LANG": "C.UTF-8"}, True),
        ({"TERM": "xterm", "LANG": "en_US.UTF-8"}, False),
        ({"TERM": "xterm", "LANG": "C"}, True),
        ({"TERM": "xterm", "LC_ALL": "POSIX", "LANG": "en_US.UTF-8"}, True),
        ({"TERM": "xterm", "LC_CTYPE": "de_DE.utf8"}, False),
    ],
)
def test_when_ascii_is_chosen(environment: dict[str, str], expected: bool) -> None:
    assert locale_wants_ascii(environment) is expected
