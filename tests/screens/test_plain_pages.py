"""The pages as lines of text: boards, caps, trip points, and what cannot be read."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from pathlib import Path
from typing import cast

import pytest

from orkbench_tui.errors import UnreachableError
from orkbench_tui.ops.remote.fleet import Fleet
from orkbench_tui.ops.remote.link import Condition, LinkState
from orkbench_tui.ops.telemetry.sample import Sample, Unavailable
from orkbench_tui.ops.telemetry.thermal import CoolingDevice
from orkbench_tui.screens import plain_mode
from orkbench_tui.screens.glyphs import ASCII
from orkbench_tui.screens.keys import PAGES
from orkbench_tui.screens.plain_mode import PlainPages
from orkbench_tui.screens.views.boards import boards_spoken
from orkbench_tui.screens.views.gaps import gaps_spoken
from tests.ops.fake_board import FakeBoard
from tests.ops.remote.fake_ssh import FakeSsh
from tests.ops.test_sample_stream import taken
from tests.screens.fake_services import FakeWorld
from tests.screens.feed import samples
from tests.screens.few_boards import STATES

SAMPLE = samples(3)[-1]


class OneFeed:
    def __init__(self, sample: Sample | None) -> None:
        self.kept, self.asked = sample, 0

    def sample(self) -> Sample:
        self.asked += 1
        if self.kept is None:
            raise UnreachableError("lab-3 does not answer", why="no route", do="look at it")
        return self.kept

    def close(self) -> None:
        return


class FewFeeds:
    """Boards of which the second does not answer."""

    hosts = ("rock-5b", "lab-3")

    def states(self) -> tuple[LinkState, ...]:
        return (STATES[0], dataclasses.replace(STATES[2], condition=Condition.UNREACHABLE, reason="no route"))

    def feed(self, host: str) -> OneFeed:
        return OneFeed(SAMPLE if host == "rock-5b" else None)


@pytest.fixture
def pages(monkeypatch: pytest.MonkeyPatch) -> PlainPages:
    monkeypatch.setattr(plain_mode, "_RATE_PAUSE_S", 0.0)
    return PlainPages(OneFeed(SAMPLE), None)


def of_fleet() -> PlainPages:
    fleet = cast(Fleet, FewFeeds())
    return PlainPages(fleet.feed("rock-5b"), None, fleet)


def test_the_dashboard_tells_caps_trip_points_and_remedies(pages: PlainPages) -> None:
    text = "\n".join(pages.lines())
    assert "caps none, 3 cooling devices at rest" in text
    zone = next(item for item in SAMPLE.temperatures if item.trips)
    assert f"trip points {zone.zone}, now {zone.celsius:.0f}: " in text
    for trip in zone.trips:
        assert f"{trip.kind} at {trip.celsius:.0f}" in text
    gaps = [gap for gap in SAMPLE.unavailable if gap.reason == "absent"]
    assert gaps
    for gap in gaps:
        assert f"not read {gap.field}, absent: {gap.remedy} ({gap.path} {gap.errno})" in text


def test_an_active_cap_and_a_refused_source_are_said() -> None:
    sample = dataclasses.replace(
        SAMPLE,
        cooling=(CoolingDevice(0, "thermal-cpufreq-0", 2, 6),),
        temperatures=(),
        unavailable=(Unavailable("dma_bufs", "denied", "/sys/x\x1b[31m", "EACCES"),),
    )
    assert gaps_spoken(sample, ASCII) == [
        "caps thermal-cpufreq-0 at 2 of 6",
        "trip points ? no zone tells one",
        r"not read dma_bufs, denied: use sudo (/sys/x\x1b[31m EACCES)",
    ]


def test_every_page_and_the_boards_are_in_the_menu_and_answer(pages: PlainPages) -> None:
    menu = pages.menu()[0]
    for page in (*PAGES, None):
        key, title = ("b", "boards") if page is None else (page.key, page.title)
        assert f"{key} {title}" in menu
        for word in (key, title):
            assert pages.go(word) == ""
            assert pages.lines()[0] == f"Page {title}."
    assert "--board HOST" in pages.lines()[1]
    assert "--board HOST" in pages.go("b rock-5b")
    assert "no page 'moon'. Pages: 1 dashboard" in pages.go("moon")
    pages.go("5")
    assert "--replay" in pages.lines()[1]


def test_every_board_is_one_line() -> None:
    said = boards_spoken(STATES, "rock-5b", 1010.0)
    assert (
        said[0].startswith("board rock-5b, shown on the other pages: ")
        and "NPU load 63 93 84 percent" in said[0]
    )
    assert said[1].startswith("board root@10.0.0.7: UNREACHABLE Connection timed out; last known: NPU load")
    assert said[1].endswith("seen 2 min ago")
    assert said[2] == "board lab-3: CONNECTING; seen never"
    assert len(said) == len(STATES) and not any("\x1b" in text or "\n" in text for text in said)


def test_another_board_is_put_on_the_pages_and_one_that_is_gone_says_so() -> None:
    pages = of_fleet()
    assert "`b HOST`" in pages.menu()[1]
    assert pages.go("b") == ""
    assert pages.lines()[1].startswith("board rock-5b, shown on the other pages")
    assert pages.go("b lab-3") == "" and pages.page == "dashboard"
    assert pages.lines() == ["Page dashboard.", "lab-3 does not answer: no route; look at it"]
    pages.go("boards")
    assert pages.lines()[2].startswith("board lab-3, shown on the other pages: UNREACHABLE no route")
    assert pages.go("b moon") == "no board 'moon'; boards: rock-5b, lab-3"


def test_rates_are_never_asked_for_too_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page read right behind another would have no CPU loads."""
    slept: list[float] = []
    monkeypatch.setattr(plain_mode.time, "sleep", slept.append)
    monkeypatch.setattr(plain_mode.time, "monotonic", lambda: 100.0)
    pages = PlainPages(OneFeed(SAMPLE), None)
    for _ in range(2):
        pages.lines()
    assert slept == [0.25, 0.25]


def test_other_boards_over_ssh_as_text(tmp_path: Path) -> None:
    ssh = FakeSsh(tmp_path / "bin")
    board = FakeBoard()
    # A core at 100 % that may be wedged would be watched until the stream, which ends here, goes on.
    board.files["/sys/kernel/debug/rknpu/load"] = "NPU load:  Core0: 42%, Core1: 7%, Core2: 84%,\n"
    lines = [line.decode() for _, line in taken(board, tmp_path)]
    ssh.answers("rock", *(("out", line) for line in lines), ("sleep", 60))
    ssh.answers("gone", ("err", "Connection timed out\n"), ("exit", 255))
    code = "from orkbench_tui.cli.tui import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "--plain", "--board", "rock", "--board", "gone"],
        input="b\nb gone\nq\n",
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={**os.environ, "PATH": ssh.path},
    )
    assert done.returncode == 0, done.stderr
    assert "source board, at rock, kernel" in done.stdout
    assert "board rock, shown on the other pages: OK; NPU load" in done.stdout
    assert "board gone: UNREACHABLE Connection timed out" in done.stdout
    assert "gone does not answer: Connection timed out" in done.stdout


def test_an_interrupted_operation_stands_on_the_dashboard(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(plain_mode, "_RATE_PAUSE_S", 0.0)
    told = ["recover was interrupted: run `ork board resume`"]
    services = dataclasses.replace(FakeWorld(tmp_path).services(), unfinished=lambda: told)
    page = PlainPages(OneFeed(SAMPLE), services).lines()
    assert any("unfinished" in text and told[0] in text for text in page)
