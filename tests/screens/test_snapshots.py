"""What the screens look like, at the sizes people have."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import threading
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from orkbench_tui.ops.doctor.checks import Check, Finding, Outcome
from orkbench_tui.runner.orkpack.placement import plan_placement
from orkbench_tui.runner.orkpack.shapes import shapes_named
from orkbench_tui.screens.app import OrkApp, Report
from orkbench_tui.screens.boards_screen import BoardsScreen
from orkbench_tui.screens.glyphs import ASCII, UNICODE, Glyphs
from orkbench_tui.screens.sampling import BoardLost
from orkbench_tui.screens.views.operations import CHOICES
from tests.screens.fake_services import FakeWorld, with_boot_disk
from tests.screens.feed import feed, quiet_app, samples, with_chat
from tests.screens.few_boards import FewBoards


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
        ((160, 50), True, True, UNICODE),
        ((60, 15), True, True, UNICODE),
        ((80, 23), False, True, UNICODE),
        ((60, 18), True, True, UNICODE),
        ((200, 60), False, True, UNICODE),
    ],
    ids=["80x24", "80x24-storm", "80x24-ascii-mono", "120x40", "160x50", "60x15", "80x23", "60x18", "200x60"],
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


SHOWN = ("drop-caches", "governors", "irq-affinity", "drain", "reset", "recover")


@pytest.fixture(autouse=True)
def few_operations(monkeypatch: pytest.MonkeyPatch) -> None:
    """Operations that are added later change no picture."""
    chosen = tuple(choice for choice in CHOICES if choice.operation.name in SHOWN)
    for name in ("views.operations", "operations_screen", "palette_screen"):
        monkeypatch.setattr(f"orkbench_tui.screens.{name}.CHOICES", chosen)


@pytest.fixture(autouse=True)
def idle_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clocks of the simulated board follow what this process works, which differs from run to run."""
    monkeypatch.setattr("orkbench_tui.sim.board_files.client_time.cpu_ns", lambda pid: 0)


def _outcome(number: int, name: str, status: str, found: str, fix: str = "") -> Outcome:
    check = Check(
        number, name, "", f"what {name} wants", f"why {name} matters", fix, lambda _: Finding(status, found)
    )
    return Outcome(check, Finding(status, found), fix)


OUTCOMES = (
    _outcome(1, "npu.clock", "ok", "1000 of 1000 MHz"),
    _outcome(2, "npu.governor", "ok", "rknpu_ondemand"),
    _outcome(3, "heat", "warn", "npu-thermal 66 °C", "let it cool"),
    _outcome(
        4, "cpu.clocks", "fail", "policy0 ondemand 408/1800 MHz", "ask the owner, then set the governors"
    ),
    _outcome(5, "supply", "unknown", "no sensor read here"),
)


@pytest.fixture(autouse=True)
def few_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orkbench_tui.screens.doctor_screen.run_checks", lambda readings: OUTCOMES)


PAGES = {
    "cores": ("2",),
    "domains": ("3", "j"),
    "log": ("4", "k", "k"),
    "log-filtered": ("4", "s", "s", "slash", *"core 1", "enter"),
    "rules": ("0", "j"),
    "mode-changes": ("0", "o"),
    "help": ("question_mark",),
    "palette": ("colon", *"govern"),
    "settings": ("e", "j"),
    "settings-asked": ("e", "j", "enter", "ctrl+u", *"/x"),
}


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same settings, and the same path of their file, on every machine."""
    for name in [name for name in os.environ if name.startswith("ORK_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CONFIG_HOME", "/nonexistent")


@pytest.mark.parametrize("size", [(80, 24), (160, 50)], ids=["80x24", "160x50"])
@pytest.mark.parametrize("page", list(PAGES))
def test_pages_of_samples(snap_compare: Any, page: str, size: tuple[int, int]) -> None:
    app = quiet_app()
    assert snap_compare(app, terminal_size=size, run_before=_filled(app, True, *PAGES[page]))


WORKING = {
    "operations": ("5", *"jjj"),
    "operations-plan": ("5", *"jjj", "enter"),
    "operations-asked": ("5", *"jjj", "enter", "WAIT", "a"),
    "models": ("6",),
    "chat": ("7",),
    "chat-answered": ("7", "i", *"tell me more", "enter"),
    "doctor": ("8", "WAIT", *"jjj"),
    "bench": ("9", "WAIT", *"jj"),
    "kernel": ("K", "WAIT", *"jj"),
    "kernel-installed": ("K", "WAIT", "o"),
}


@pytest.mark.parametrize("size", [(80, 24), (160, 50)], ids=["80x24", "160x50"])
@pytest.mark.parametrize("page", list(WORKING))
def test_pages_that_work(
    snap_compare: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, page: str, size: tuple[int, int]
) -> None:
    # Paths on the screen must be the same in every run.
    folder = Path("/tmp/ork-snapshot")
    services = dataclasses.replace(FakeWorld(tmp_path).services(), models_dir=folder)
    if page.startswith("kernel"):
        services = with_boot_disk(services, tmp_path)
    app = quiet_app(services=services)
    assert snap_compare(app, terminal_size=size, run_before=_worked(app, *WORKING[page]))


def _worked(app: OrkApp, *keys: str) -> Any:
    async def before(pilot: Pilot[None]) -> None:
        feed(app, samples(90))
        for key in keys:
            if key == "WAIT":
                await _quiet(pilot)
            else:
                await pilot.press(key)
        await _quiet(pilot)

    return before


async def _quiet(pilot: Pilot[None]) -> None:
    """Until no thread of ours works any more."""
    for _ in range(200):
        await asyncio.sleep(0.02)
        busy = [
            t.name
            for t in threading.enumerate()
            if t.name.startswith(("operation", "doctor", "models list", "bench list", "kernel"))
        ]
        if not busy:
            break
    await asyncio.sleep(0.1)
    await pilot.pause()
    await pilot.pause()


def test_light_theme(snap_compare: Any) -> None:
    app = quiet_app(theme="light")
    assert snap_compare(app, terminal_size=(100, 30), run_before=_filled(app, True, "2"))


def test_log_in_ascii_without_colour(snap_compare: Any) -> None:
    app = quiet_app(colour=False, glyphs=ASCII)
    assert snap_compare(app, terminal_size=(80, 24), run_before=_filled(app, True, "4"))


def test_help_where_it_scrolls(snap_compare: Any) -> None:
    app = quiet_app()
    before = _filled(app, False, "question_mark", "pagedown", "j")
    assert snap_compare(app, terminal_size=(60, 15), run_before=before)


@pytest.mark.parametrize("size", [(80, 24), (160, 50)], ids=["80x24", "160x50"])
def test_bench_comparisons(snap_compare: Any, tmp_path: Path, size: tuple[int, int]) -> None:
    world = FakeWorld(tmp_path)
    world.keep_comparison()
    app = quiet_app(services=world.services())
    assert snap_compare(app, terminal_size=size, run_before=_worked(app, "9", "WAIT", "o", "o"))


@pytest.mark.parametrize("size", [(80, 24), (160, 50)], ids=["80x24", "160x50"])
def test_boards_overview(snap_compare: Any, size: tuple[int, int]) -> None:
    app = quiet_app()
    app.install_screen(BoardsScreen(FewBoards(), lambda: "rock-5b", lambda host: None, lambda: 1001.0), "few")

    async def before(pilot: Pilot[None]) -> None:
        feed(app, samples(5))
        await app.push_screen("few")
        app.draw()
        await pilot.press("j")
        await pilot.pause()

    assert snap_compare(app, terminal_size=size, run_before=before)


@pytest.mark.parametrize("size", [(80, 24), (160, 50)], ids=["80x24", "160x50"])
def test_residency_map(
    snap_compare: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: tuple[int, int]
) -> None:
    monkeypatch.setattr(
        "orkbench_tui.runner.quantize.file_placement.placement_of_file",
        lambda path: plan_placement(shapes_named("qwen-27b-like")),
    )
    services = FakeWorld(tmp_path).services()
    services.packs_dir.mkdir()
    (services.packs_dir / "a.orkpack").write_bytes(b"stands for a pack")
    app = quiet_app(services=services)
    before = _worked(app, "6", "WAIT", "G", "o", "WAIT", "j")
    assert snap_compare(app, terminal_size=size, run_before=before)
