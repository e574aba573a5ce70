"""Several boards on one page, and the change from one to another."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.pilot import Pilot

from orkbench_tui.ops.remote.fleet import Fleet
from orkbench_tui.screens.app import OrkApp
from orkbench_tui.screens.glyphs import ASCII, UNICODE
from orkbench_tui.screens.text_line import fit, plain, width_of
from orkbench_tui.screens.views.boards import boards_lines
from orkbench_tui.screens.widgets.lines import LinesWidget
from orkbench_tui.settings import Settings
from tests.ops.fake_board import FakeBoard
from tests.ops.remote.fake_ssh import FakeSsh
from tests.ops.test_sample_stream import taken
from tests.screens.feed import quiet_app
from tests.screens.few_boards import STATES

SAMPLE = STATES[0].sample
assert SAMPLE is not None


def page(width: int = 80, height: int = 10, chosen: int = 0) -> list[str]:
    lines = boards_lines(STATES, chosen, "rock-5b", 1001.0, width, height, UNICODE)
    return [plain(fit(item, width)) for item in lines]


def test_a_row_tells_load_heat_state_and_when() -> None:
    top, head, rock, other, lab, long = page(120)
    assert "Boards" in top and "1 of 4 answering" in top
    assert "NPU %" in head
    loads = " ".join(f"{core.load_pct:>3}" for core in SAMPLE.npu.cores)
    assert rock.startswith("▶* rock-5b") and loads in rock and " 48 " in rock and " now  OK" in rock
    assert "UNREACHABLE Connection timed out" in other and "2 min ago" in other and loads in other
    assert "CONNECTING" in lab and "never" in lab and "?" in lab
    assert "\x1b" not in long and "UNREACHABLE" in long


@pytest.mark.parametrize("width", [60, 80, 160])
def test_rows_fit_and_the_chosen_one_shows(width: int) -> None:
    for chosen in range(4):
        lines = boards_lines(STATES, chosen, "", 1001.0, width, 4, ASCII)
        fitted = [fit(item, width) for item in lines]
        assert len(lines) == 4 and all(width_of(item) <= width for item in fitted)
        assert sum(plain(item).startswith(">") for item in fitted) == 1


def test_the_chosen_board_tells_in_full_why_it_is_silent() -> None:
    told = page(80, 20, chosen=1)
    assert len(told) <= 20 and "root@10.0.0.7: UNREACHABLE Connection timed out" in "\n".join(told)


def test_figures_of_a_board_that_is_gone_are_dim() -> None:
    lines = boards_lines(STATES, 0, "", 1001.0, 100, 10, UNICODE)
    assert {span.role for span in lines[3]} == {"text", "dim", "error"}
    assert "dim" not in {span.role for span in lines[2]}


def text_of(app: OrkApp) -> str:
    return "\n".join(plain(item) for panel in app.screen.query(LinesWidget) for item in panel.lines)


async def reaches(app: OrkApp, pilot: Pilot[None], words: str) -> None:
    for _ in range(300):
        if words in text_of(app):
            return
        await pilot.pause(0.02)
    raise AssertionError(text_of(app))


async def test_from_one_board_to_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ssh = FakeSsh(tmp_path / "bin")
    monkeypatch.setenv("PATH", ssh.path)
    for host in ("one", "two"):
        board = FakeBoard()
        board.files["/proc/sys/kernel/hostname"] = f"name-of-{host}\n"
        lines = [("out", line.decode()) for _, line in taken(board, tmp_path, 3)]
        ssh.answers(host, *lines, ("sleep", 60))
    ssh.answers("dead", ("err", "No route to host\n"), ("exit", 255))
    with Fleet(["one", "dead", "two"], Settings(), 1.0) as fleet:
        app = OrkApp(lambda: fleet.feed("one"), tmp_path, fleet=fleet, interval_s=0.1, process_time=None)
        async with app.run_test(size=(100, 30)) as pilot:
            await reaches(app, pilot, "name-of-one")
            await pilot.press("b")
            await reaches(app, pilot, "UNREACHABLE No route to host")
            await pilot.press("down", "down", "enter")
            await reaches(app, pilot, "name-of-two")
            assert app.host == "two" and len(app.state.history) == 3
            await pilot.press("b", "g", "j", "enter")
            await reaches(app, pilot, "dead does not answer: No route to host")
            assert "NO BOARD" in text_of(app) or "no board yet" in text_of(app)


async def test_with_one_board_the_page_says_how_to_have_more() -> None:
    app = quiet_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("b")
        assert "--board HOST" in app.state.notice
