"""Every page at the smallest sizes: usable at 60x15, one plain line at 20x5, nothing that ends the program."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from orkbench_tui.screens.app import OrkApp
from orkbench_tui.screens.boards_screen import BoardsScreen
from orkbench_tui.screens.keys import PAGES, keys_for
from orkbench_tui.screens.text_line import plain, width_of
from orkbench_tui.screens.widgets.lines import LinesWidget
from tests.screens.fake_services import FakeWorld, with_boot_disk
from tests.screens.feed import feed, quiet_app, samples, with_chat
from tests.screens.few_boards import FewBoards

NAMES = [*(page.name for page in PAGES), "help", "palette", "boards"]
OPENS = {**{page.name: page.key for page in PAGES}, "help": "question_mark", "palette": "colon"}


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


def rows_of(app: OrkApp) -> list[str]:
    return [plain(item) for panel in app.screen.query(LinesWidget) if panel.display for item in panel.lines]


@pytest.mark.parametrize("name", NAMES)
async def test_a_page_at_the_smallest_sizes(tmp_path: Path, name: str) -> None:
    app = quiet_app(services=with_boot_disk(FakeWorld(tmp_path).services(), tmp_path))
    async with app.run_test(size=(60, 15)) as pilot:
        taken = samples(5, storm=True)
        feed(app, [*taken[:-1], with_chat(taken[-1])])
        if name == "boards":
            app.install_screen(
                BoardsScreen(FewBoards(), lambda: "", lambda host: None, lambda: 1001.0), "few"
            )
            await app.push_screen("few")
            app.draw()
        elif name != "dashboard":
            await pilot.press(OPENS[name])
        for _ in range(40):
            await pilot.pause()
            if sum(bool(row.strip()) for row in rows_of(app)) > 5:
                break
            await asyncio.sleep(0.02)
        rows = rows_of(app)
        assert len(rows) == 15 and all(len(row) <= 60 for row in rows)
        assert sum(bool(row.strip()) for row in rows) >= (4 if name == "chat" else 6), "\n".join(rows)
        before = rows[1:-1]
        moving = [key for key in keys_for(name) if key.action == ("move(-1)" if name == "log" else "move(1)")]
        for key in moving:
            for _ in range(3):
                await pilot.press(key.keys.split(",")[0])
            await pilot.pause()
        if name in ("domains", "log", "operations", "rules", "kernel", "settings", "help", "boards"):
            assert rows_of(app)[1:-1] != before, "its keys do nothing at this size"
        for size in ((20, 5), (1, 1), (59, 15), (60, 14)):
            await pilot.resize_terminal(*size)
            await pilot.pause()
            rows = rows_of(app)
            assert rows[0] == f"needs 60x15, is {size[0]}x{size[1]}; q quits"[: size[0]].ljust(size[0])
            assert all(
                width_of(item) <= size[0]
                for panel in app.screen.query(LinesWidget)
                for item in panel.lines
                if panel.display
            )
        await pilot.resize_terminal(80, 24)
        await pilot.pause()
        assert len(rows_of(app)) >= 24 and "needs 60x15" not in rows_of(app)[0]
