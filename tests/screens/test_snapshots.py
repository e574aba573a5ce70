"""What the screens look like, at the sizes people have."""

from __future__ import annotations

from typing import Any

import pytest
from textual.pilot import Pilot

from orkbench_tui.screens.app import OrkApp, Report
from orkbench_tui.screens.glyphs import ASCII, UNICODE, Glyphs
from orkbench_tui.screens.sampling import BoardLost
from tests.screens.feed import feed, quiet_app, samples, with_chat


def _filled(app: OrkApp, storm: bool, *keys: str) -> Any:
    async def before(pilot: Pilot[None]) -> None:
        taken = samples(90, storm=storm)
        feed(app, [*taken[:-1], with_chat(taken[-1])])
        await pilot.press(*keys)
        await pilot.pause()
        await pilot.pause()

    return before


@pytest.mark.parametrize(
    ("size", "storm", "colour", "glyphs"),
    [
        ((80, 24), False, True, UNICODE),
        ((80, 24), True, True, UNICODE),
        ((80, 24), True, False, ASCII),
        ((120, 40), False, True, UNICODE),
        ((60, 15), True, True, UNICODE),
        ((80, 23), False, True, UNICODE),
        ((60, 18), True, True, UNICODE),
        ((200, 60), False, True, UNICODE),
    ],
    ids=["80x24", "80x24-storm", "80x24-ascii-mono", "120x40", "60x15", "80x23", "60x18", "200x60"],
)
def test_dashboard(
    snap_compare: Any, size: tuple[int, int], storm: bool, colour: bool, glyphs: Glyphs
) -> None:
    app = quiet_app(colour=colour, glyphs=glyphs)
    assert snap_compare(app, terminal_size=size, run_before=_filled(app, storm))


def test_lost_board_is_dim(snap_compare: Any) -> None:
    app = quiet_app()

    async def lose(pilot: Pilot[None]) -> None:
        await _filled(app, False)(pilot)
        app.on_report(Report(BoardLost("the simulated board stopped")))
        await pilot.pause()

    assert snap_compare(app, terminal_size=(80, 24), run_before=lose)


def test_help_where_it_scrolls(snap_compare: Any) -> None:
    app = quiet_app()
    before = _filled(app, False, "question_mark", "pagedown", "j")
    assert snap_compare(app, terminal_size=(60, 15), run_before=before)


@pytest.mark.parametrize("key", ["l", "question_mark"])
def test_other_screens(snap_compare: Any, key: str) -> None:
    app = quiet_app()
    assert snap_compare(app, terminal_size=(80, 24), run_before=_filled(app, True, key))
