"""A recording on the screens: steps, jumps, stops; charts follow."""

from __future__ import annotations

from pathlib import Path

from textual.pilot import Pilot

from orkbench_tui.ops.telemetry.recording import Recording
from orkbench_tui.ops.telemetry.replay_feed import ReplayFeed
from orkbench_tui.screens.app import OrkApp
from orkbench_tui.screens.text_line import plain
from orkbench_tui.screens.widgets.lines import LinesWidget
from tests.ops.test_recording import made
from tests.screens.feed import quiet_app


def header(app: OrkApp) -> str:
    return "\n".join(plain(item) for item in app.screen.query_one("#header", LinesWidget).lines)


async def reaches(app: OrkApp, pilot: Pilot[None], words: str) -> None:
    for _ in range(200):
        if words in header(app):
            return
        await pilot.pause(0.02)
    raise AssertionError(header(app))


async def test_keys_steer_a_recording(tmp_path: Path) -> None:
    feed = ReplayFeed(Recording(made(tmp_path / "a.rec", 90)), playing=False)
    app = OrkApp(lambda: feed, tmp_path, replay=feed, interval_s=30.0, process_time=None)
    async with app.run_test(size=(100, 30)) as pilot:
        await reaches(app, pilot, "[REPLAY 1 of 90 held]")
        for key, place in (
            ("full_stop", "2 of 90 held"),
            ("greater_than_sign", "62 of 90 held"),
            ("comma", "61 of 90 held"),
            ("right_parenthesis", "90 of 90 held"),
            ("less_than_sign", "30 of 90 held"),
            ("left_parenthesis", "1 of 90 held"),
        ):
            await pilot.press(key)
            await reaches(app, pilot, f"[REPLAY {place}]")
            index = int(place.split()[0])
            assert len(app.state.loads[0]) == index and app.state.loads[0][-1] == index - 1
        await pilot.press("space")
        await reaches(app, pilot, "[REPLAY 2 of 90]")
        await pilot.press("space")
        await reaches(app, pilot, "held]")
        assert "[FROZEN]" not in header(app)
        # What was reset by sample 10 of the recording is not yet known at its start.
        await pilot.press("left_parenthesis")
        await reaches(app, pilot, "[REPLAY 1 of 90 held]")
        assert app.state.sample is not None and app.state.sample.log.facts.resets == 0


async def test_a_live_board_cannot_be_stepped() -> None:
    app = quiet_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("comma")
        assert "ork-tui --replay" in app.state.notice
        await pilot.press("greater_than_sign", "left_parenthesis")
        assert app.is_running
