"""The app under a pilot: keys, resizing, loss and return of the board."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest
from textual.pilot import Pilot

from orkbench_tui.cli.tui import _REPLAY_KEYS
from orkbench_tui.ops.files import BoardFiles
from orkbench_tui.screens.app import OrkApp, Report
from orkbench_tui.screens.dashboard import Dashboard
from orkbench_tui.screens.help_screen import HelpScreen
from orkbench_tui.screens.keys import ELSEWHERE, ONE_BOARD
from orkbench_tui.screens.layout import Shape
from orkbench_tui.screens.log_screen import LogScreen
from orkbench_tui.screens.sampling import BoardLost, Sampler, Taken
from orkbench_tui.screens.text_line import plain
from orkbench_tui.screens.view_state import ViewState
from orkbench_tui.screens.views.frame import footer_line
from orkbench_tui.screens.widgets.lines import LinesWidget
from tests.ops.fake_board import FakeBoard
from tests.screens.feed import _never, feed, quiet_app, samples

HEALTHY = samples(30)


def text_of(app: OrkApp, panel: str) -> str:
    return "\n".join(plain(item) for item in app.screen.query_one(f"#{panel}", LinesWidget).lines)


async def settle(pilot: Pilot[None]) -> None:
    await pilot.pause()
    await pilot.pause()


async def test_live_resizing_keeps_every_figure() -> None:
    app = quiet_app()
    async with app.run_test(size=(80, 24)) as pilot:
        feed(app, HEALTHY)
        await settle(pilot)
        assert "mean" in text_of(app, "npu") and "big0 47" in text_of(app, "board")
        for size, shape in (((120, 40), Shape.FULL), ((60, 15), Shape.COMPACT), ((40, 8), Shape.TOO_SMALL)):
            await pilot.resize_terminal(*size)
            await settle(pilot)
            screen = app.screen
            assert isinstance(screen, Dashboard) and screen.shape is shape
            shown = [panel for panel in screen.query(LinesWidget) if panel.display]
            assert sum(panel.size.width * panel.size.height for panel in shown) == size[0] * size[1]
            for panel in shown:
                assert len(panel.lines) == panel.size.height
        assert "needs 60x15" in text_of(app, "small")
        await pilot.resize_terminal(80, 24)
        await settle(pilot)
        assert "core 2" in text_of(app, "npu")


async def test_freezing_holds_the_picture_while_samples_arrive() -> None:
    app = quiet_app()
    async with app.run_test(size=(80, 24)) as pilot:
        feed(app, HEALTHY[:10])
        await pilot.press("space")
        held = text_of(app, "npu")
        feed(app, HEALTHY[10:])
        await settle(pilot)
        assert text_of(app, "npu") == held and "[FROZEN]" in text_of(app, "header")
        await pilot.press("space")
        await settle(pilot)
        assert text_of(app, "npu") != held and "[FROZEN]" not in text_of(app, "header")


async def test_unchanged_samples_repaint_nothing() -> None:
    app = quiet_app()
    async with app.run_test(size=(80, 24)) as pilot:
        feed(app, HEALTHY[:5])
        await settle(pilot)
        panels = [panel for panel in app.screen.query(LinesWidget) if panel.display and panel.id != "npu"]
        before = [panel.repainted for panel in panels]
        feed(app, [HEALTHY[4]])
        await settle(pilot)
        assert [panel.repainted for panel in panels] == before


async def test_screens_open_and_close_and_escape_never_leaves() -> None:
    app = quiet_app()
    async with app.run_test(size=(80, 24)) as pilot:
        feed(app, HEALTHY[:3])
        for key, kind in (("l", LogScreen), ("question_mark", HelpScreen)):
            await pilot.press(key)
            await settle(pilot)
            assert isinstance(app.screen, kind)
            await pilot.press("escape")
            await settle(pilot)
            assert isinstance(app.screen, Dashboard)
        await pilot.press("escape", "escape")
        await settle(pilot)
        assert app.is_running and isinstance(app.screen, Dashboard)
        await pilot.press("l", "l")
        await settle(pilot)
        assert isinstance(app.screen, Dashboard)
        await pilot.press("q")
        await settle(pilot)
    assert not app.is_running


async def test_log_screen_moves_and_explains() -> None:
    app = quiet_app()
    async with app.run_test(size=(80, 24)) as pilot:
        feed(app, samples(2, storm=True))
        await pilot.press("l")
        await settle(pilot)
        assert "npu.job.abort" in text_of(app, "log-page")
        await pilot.press("up", "up")
        await settle(pilot)
        page = text_of(app, "log-page")
        assert "npu.job.timeout: a job was accepted and never completed" in page
        assert "noise hidden" in page and "can't request region" not in page
        await pilot.press("h", "g")
        await settle(pilot)
        assert "noise too" in text_of(app, "log-page")


async def test_interval_keys_stay_within_the_table() -> None:
    app = quiet_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("minus")
        assert app.state.interval_s == 2.0
        await pilot.press(*["plus"] * 9)
        assert app.state.interval_s == 0.2
        await settle(pilot)
        assert "0.2 s" in text_of(app, "footer")


async def test_loss_and_return_of_the_board() -> None:
    app = quiet_app()
    async with app.run_test(size=(80, 24)) as pilot:
        feed(app, HEALTHY[:3])
        app.on_report(Report(BoardLost("the simulated board stopped; `ork sim start` brings it back")))
        await settle(pilot)
        assert "[NO BOARD]" in text_of(app, "header")
        assert "`ork sim start` brings it back" in text_of(app, "footer")
        feed(app, HEALTHY[3:4])
        await settle(pilot)
        assert "NO BOARD" not in text_of(app, "header") and "q quit" in text_of(app, "footer")


async def test_old_samples_are_called_stale() -> None:
    now = [0.0]
    app = quiet_app()
    app._steady = lambda: now[0]
    async with app.run_test(size=(80, 24)) as pilot:
        feed(app, HEALTHY[:2])
        now[0] = 10.0
        app._check_age()
        await settle(pilot)
        assert "[STALE]" in text_of(app, "header")
        feed(app, HEALTHY[2:3])
        await settle(pilot)
        assert "STALE" not in text_of(app, "header")


async def test_a_real_sampling_thread_feeds_the_screen(tmp_path: Path) -> None:
    board = FakeBoard()
    app = OrkApp(lambda: board, tmp_path, interval_s=0.2)
    async with app.run_test(size=(80, 24)) as pilot:
        for _ in range(100):
            await asyncio.sleep(0.05)
            if "100 %" in text_of(app, "npu"):
                break
        assert " core 2 " in text_of(app, "npu") and "100 %" in text_of(app, "npu")
        board.gone = True
        for _ in range(100):
            await asyncio.sleep(0.05)
            if "NO BOARD" in text_of(app, "header"):
                break
        assert "[NO BOARD]" in text_of(app, "header")
        board.gone = False
        for _ in range(100):
            await asyncio.sleep(0.05)
            if "NO BOARD" not in text_of(app, "header"):
                break
        assert "[OK]" in text_of(app, "header")
        await settle(pilot)


def test_sampler_connects_again_after_a_loss(tmp_path: Path) -> None:
    boards = [FakeBoard(), FakeBoard()]
    connections: list[BoardFiles] = []
    news: list[Taken | BoardLost] = []
    enough = threading.Event()

    def connect() -> BoardFiles:
        if len(connections) == 1 and not any(isinstance(item, BoardLost) for item in news[-1:]):
            raise OSError("not yet")
        board = boards[min(len(connections), 1)]
        connections.append(board)
        return board

    def deliver(item: Taken | BoardLost) -> None:
        news.append(item)
        if len(news) == 2:
            boards[0].gone = True
        if len(connections) == 2 and isinstance(item, Taken):
            enough.set()

    sampler = Sampler(connect, tmp_path, 0.05, deliver)
    thread = threading.Thread(target=sampler.run, daemon=True)
    thread.start()
    assert enough.wait(20)
    sampler.stop()
    thread.join(20)
    assert not thread.is_alive()
    assert sum(isinstance(item, BoardLost) for item in news) >= 1


def test_own_cost_stays_between_fast_samples() -> None:
    clock = {"steady": 0.0, "spent": 0.0}
    app = OrkApp(
        lambda: FakeBoard(),
        Path("/nonexistent"),
        process_time=lambda: clock["spent"],
        steady=lambda: clock["steady"],
    )
    seen = []
    for sample in samples(9):
        app._take(Taken(sample))
        seen.append(app.state.own_cpu_pct)
        clock["steady"] += 0.2
        clock["spent"] += 0.01
    assert seen[:3] == [None, None, None]
    assert all(value is not None and abs(value - 5) < 0.01 for value in seen[3:])


async def test_an_answer_to_a_key_stays_to_be_read_and_is_shown_on_every_page() -> None:
    now = {"s": 100.0}
    app = OrkApp(
        _never, Path("/nonexistent"), notice="started", process_time=None, steady=lambda: now["s"]
    )  # fmt: skip
    async with app.run_test(size=(120, 24)) as pilot:
        for _ in range(5):
            feed(app, HEALTHY)
        assert app.state.notice == "started"
        await pilot.press("2", "b")
        feed(app, HEALTHY)
        await pilot.pause()
        page = app.page("cores")
        assert page is not None and "one board is shown" in plain(page.body.lines[-1])
        now["s"] += 7.0
        app._check_age()
        assert app.state.notice
        now["s"] += 2.0
        app._check_age()
        await pilot.pause()
        assert not app.state.notice and "k up" in plain(page.body.lines[-1])


@pytest.mark.parametrize("said", [ONE_BOARD, ELSEWHERE, _REPLAY_KEYS])
def test_what_answers_a_key_fits_a_line_of_80_columns_with_its_keys(said: str) -> None:
    shown = plain(footer_line(ViewState(notice=said, lost="the board is gone"), 80))
    assert said in shown and shown.endswith("q quit ") and len(shown) == 80
    assert "the board is gone" in plain(footer_line(ViewState(lost="the board is gone"), 80))
