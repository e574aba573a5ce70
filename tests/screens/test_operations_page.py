"""Operations from the screen: plan, typed confirmation, live journal, result, undo; the ladder; never frozen."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable
from pathlib import Path

from textual.pilot import Pilot

from orkbench_tui.ops.guard.journal import history
from orkbench_tui.ops.telemetry.sample import Sample, Temperature
from orkbench_tui.screens.app import OrkApp
from orkbench_tui.screens.operations_screen import OperationsScreen
from orkbench_tui.screens.text_line import plain
from orkbench_tui.screens.views.next_step import next_operation, next_step
from orkbench_tui.screens.views.operations import CHOICES, with_progress
from tests.ops.guard.guarded_sim import nodes
from tests.screens.fake_services import FakeWorld
from tests.screens.feed import feed, quiet_app, samples

HEALTHY = samples(5)
GOVERNOR = "/sys/class/devfreq/fdab0000.npu/governor"


def text_of(app: OrkApp) -> str:
    page = app.page("operations")
    assert isinstance(page, OperationsScreen)
    return "\n".join(plain(item).rstrip() for item in page.body.lines)


async def until(pilot: Pilot[None], true: Callable[[], bool]) -> None:
    for _ in range(400):
        await pilot.pause()
        if true():
            return
        await asyncio.sleep(0.025)
    raise AssertionError("waited in vain:\n" + text_of(pilot.app))  # type: ignore[arg-type]


async def opened(pilot: Pilot[None], label: str) -> None:
    app = pilot.app
    assert isinstance(app, OrkApp)
    feed(app, HEALTHY)
    await pilot.press("5")
    await pilot.pause()
    steps = next(index for index, choice in enumerate(CHOICES) if choice.label == label)
    await pilot.press(*["j"] * steps)
    await pilot.pause()


def idle(app: OrkApp) -> Callable[[], bool]:
    page = app.page("operations")
    assert isinstance(page, OperationsScreen)
    return lambda: not page._worker.running


async def test_a_plan_changes_nothing_and_says_what_it_would(tmp_path: Path) -> None:
    world = FakeWorld(tmp_path)
    app = quiet_app(services=world.services())
    before = nodes(world.board)
    async with app.run_test(size=(110, 60)) as pilot:
        await opened(pilot, "governors performance")
        assert "needs root" in text_of(app) and "a clock that follows the load" in text_of(app)
        await pilot.press("enter")
        await until(pilot, lambda: "verified by" in text_of(app))
        page = text_of(app)
        assert f"{GOVERNOR}: rknpu_ondemand -> performance" in page and "can be taken back" in page
        assert "a carries this out" in page
        assert nodes(world.board) == before


async def test_confirmed_run_shows_its_journal_and_undo_puts_back(tmp_path: Path) -> None:
    world = FakeWorld(tmp_path)
    app = quiet_app(services=world.services())
    before = nodes(world.board)
    async with app.run_test(size=(110, 60)) as pilot:
        await opened(pilot, "governors performance")
        await pilot.press("enter")
        await until(pilot, lambda: "verified by" in text_of(app))
        await pilot.press("a")
        await pilot.pause()
        assert "go on? type y" in text_of(app)
        # Enter alone is no yes.
        await pilot.press("enter")
        await pilot.pause()
        assert "nothing was changed" in text_of(app) and nodes(world.board) == before
        await pilot.press("a", "y", "enter")
        await until(pilot, lambda: "set clock governors: done" in text_of(app))
        page = text_of(app)
        assert "step 1: begun" in page and "ended: done" in page
        assert nodes(world.board)[GOVERNOR] == "performance"
        await pilot.press("u")
        await until(pilot, lambda: "performance -> rknpu_ondemand" in text_of(app))
        await pilot.press("a", "y", "enter")
        await until(pilot, lambda: "ended: done" in text_of(app))
        assert nodes(world.board) == before
    assert [run.outcome for run in history(tmp_path / "state")] == ["done", "done"]


async def test_interrupting_operations_want_the_host_name(tmp_path: Path) -> None:
    world = FakeWorld(tmp_path)
    app = quiet_app(services=world.services())
    async with app.run_test(size=(110, 60)) as pilot:
        await opened(pilot, "reset")
        await pilot.press("enter")
        await until(pilot, lambda: "verified by" in text_of(app))
        await pilot.press("a", "y", "enter")
        await pilot.pause()
        assert "not confirmed" in text_of(app) and world.effects.count == 0
        await pilot.press("a")
        host = world.board.files().read("/proc/sys/kernel/hostname").text().strip()
        await pilot.press(*["minus" if c == "-" else c for c in host], "enter")
        await until(pilot, lambda: "reset the NPU: done" in text_of(app))


async def test_a_refused_plan_cannot_be_applied(tmp_path: Path) -> None:
    world = FakeWorld(tmp_path)
    world.board.files().write("/sys/kernel/debug/rknpu/reset", b"off\n")
    app = quiet_app(services=world.services())
    async with app.run_test(size=(110, 60)) as pilot:
        await opened(pilot, "reset")
        await pilot.press("enter")
        await until(pilot, lambda: "refused" in text_of(app))
        await pilot.press("a")
        await pilot.pause()
        assert "check failed: resets are enabled" in text_of(app) and world.effects.count == 0


async def test_the_board_that_changed_since_gets_a_new_plan(tmp_path: Path) -> None:
    world = FakeWorld(tmp_path)
    app = quiet_app(services=world.services())
    async with app.run_test(size=(110, 60)) as pilot:
        await opened(pilot, "governors performance")
        await pilot.press("enter")
        await until(pilot, lambda: "verified by" in text_of(app))
        world.board.files().write(GOVERNOR, b"performance\n")
        await pilot.press("a", "y", "enter")
        await until(pilot, lambda: "the board has changed since" in text_of(app))
        assert world.effects.count == 0


async def test_failure_is_told_and_taken_back(tmp_path: Path) -> None:
    world = FakeWorld(tmp_path)
    world.effects.fail_writes_to = "/sys/class/devfreq/dmc/governor"
    app = quiet_app(services=world.services())
    before = nodes(world.board)
    async with app.run_test(size=(110, 60)) as pilot:
        await opened(pilot, "governors performance")
        await pilot.press("enter")
        await until(pilot, lambda: "verified by" in text_of(app))
        await pilot.press("a", "y", "enter")
        await until(pilot, lambda: "the board is as before" in text_of(app))
        assert "it did not work" in text_of(app) and nodes(world.board) == before
        await pilot.press("J")
        await until(pilot, lambda: "rolled back" in text_of(app))


async def test_the_ladder_on_a_healthy_board_touches_nothing(tmp_path: Path) -> None:
    world = FakeWorld(tmp_path)
    app = quiet_app(services=world.services())
    async with app.run_test(size=(110, 60)) as pilot:
        await opened(pilot, "recover")
        await pilot.press("enter")
        await until(pilot, lambda: "nothing was touched" in text_of(app))
        await pilot.press("a")
        await pilot.pause()
        assert "nothing to recover" in text_of(app) and world.effects.count == 0


async def test_pages_switch_and_leaving_asks_while_an_operation_runs(tmp_path: Path) -> None:
    world = FakeWorld(tmp_path)
    app = quiet_app(services=world.services())
    async with app.run_test(size=(110, 60)) as pilot:
        await opened(pilot, "governors performance")
        page = app.page("operations")
        assert isinstance(page, OperationsScreen)
        page._worker.running = "governors"
        await pilot.press("2")
        await pilot.pause()
        assert "governors runs (5)" in plain(app.page("cores").body.lines[-1])  # type: ignore[union-attr]
        await pilot.press("q")
        await pilot.pause()
        assert app.is_running and "q again leaves" in app.state.notice
        await pilot.press("q")
        await pilot.pause()
    assert not app.is_running


async def test_the_chat_of_this_program_is_not_ended_by_its_own_operations(tmp_path: Path) -> None:
    world = FakeWorld(tmp_path)
    app = quiet_app(services=world.services())
    async with app.run_test(size=(110, 60)) as pilot:
        feed(app, HEALTHY)
        await pilot.press("7", "i", "h", "i", "enter")
        await until(pilot, lambda: world.opened == ["tiny"])
        await pilot.press("escape")
        await opened(pilot, "drain")
        await pilot.press("enter")
        await pilot.pause()
        assert "close it first" in text_of(app) and world.effects.terminated == []


async def test_an_operation_that_needs_a_word_asks_for_it(tmp_path: Path) -> None:
    world = FakeWorld(tmp_path)
    app = quiet_app(services=world.services())
    async with app.run_test(size=(110, 60)) as pilot:
        await opened(pilot, "kernel-deploy")
        await pilot.press("enter")
        await pilot.pause()
        assert "folder of the built kernel" in text_of(app)
        await pilot.press(*"nowhere", "enter")
        await until(pilot, idle(app))
        assert "no plan could be made" in text_of(app) and world.effects.count == 0


def wedged() -> Sample:
    sample = HEALTHY[-1]
    cores = tuple(dataclasses.replace(core, stuck_s=9.0) for core in sample.npu.cores)
    return dataclasses.replace(sample, npu=dataclasses.replace(sample.npu, cores=cores))


def chosen(app: OrkApp) -> str:
    return next(row for row in text_of(app).splitlines() if row.startswith("▶"))


async def test_opened_on_a_wedged_board_it_points_at_what_the_dashboard_advises(tmp_path: Path) -> None:
    app = quiet_app(services=FakeWorld(tmp_path).services())
    async with app.run_test(size=(80, 24)) as pilot:
        feed(app, HEALTHY)
        await pilot.press("5")
        await pilot.pause()
        assert chosen(app).startswith("▶drop-caches level 1")
        # What is chosen does not move under somebody who looks at it.
        feed(app, [wedged()])
        await pilot.pause()
        assert chosen(app).startswith("▶drop-caches level 1")
        await pilot.press("escape", "5")
        await pilot.pause()
        assert chosen(app).startswith("▶recover") and "of 20" in text_of(app)
        await pilot.press("k", "escape", "5")
        await pilot.pause()
        assert chosen(app).startswith("▶reset")


def test_the_operation_is_the_one_the_step_names() -> None:
    text, _ = next_step(wedged())
    assert next_operation(wedged()) == "recover" and "recover (5)" in text
    hot = dataclasses.replace(HEALTHY[-1], temperatures=(Temperature("npu", 90.0),))
    assert next_operation(hot) == "" and next_operation(HEALTHY[-1]) == ""
    storm = samples(3, storm=True)[-1]
    assert f"{next_operation(storm)} (5)" in next_step(storm)[0]
    assert {choice.operation.name for choice in CHOICES} >= {"recover", "reboot", "drain"}


def test_a_countdown_is_one_line_that_counts() -> None:
    rows: list[tuple[str, str]] = []
    for text in ("step 1: begun", *(f"waiting for the NPU to power off: {n} s left" for n in (5, 4, 3))):
        rows = with_progress(rows, text)
    assert [text for text, _ in rows] == ["step 1: begun", "waiting for the NPU to power off: 3 s left"]
    rows = with_progress(with_progress(rows, "waiting for 7 ork: 2 s left"), "step 1: failed")
    assert len(rows) == 4 and with_progress([], "step 2: begun") == [("step 2: begun", "text")]


async def test_the_journal_takes_the_plan_away_that_is_no_longer_shown(tmp_path: Path) -> None:
    world = FakeWorld(tmp_path)
    app = quiet_app(services=world.services())
    async with app.run_test(size=(110, 60)) as pilot:
        await opened(pilot, "governors performance")
        await pilot.press("enter")
        await until(pilot, lambda: "verified by" in text_of(app))
        await pilot.press("a", "y", "enter")
        await until(pilot, lambda: "J shows the journal" in text_of(app))
        await pilot.press("u")
        await until(pilot, lambda: "a carries this out" in text_of(app))
        await pilot.press("J")
        await pilot.pause()
        page = text_of(app)
        assert "a carries this out" not in page and ": governors performance: done" in page
        await pilot.press("a")
        await pilot.pause()
        assert "enter shows the plan first" in text_of(app)


async def test_an_interrupted_operation_is_told_until_it_is_dealt_with(tmp_path: Path) -> None:
    told = ["recover was interrupted: run `ork board resume`"]
    services = dataclasses.replace(FakeWorld(tmp_path).services(), unfinished=lambda: list(told))
    app = quiet_app(services=services)
    async with app.run_test(size=(80, 24)) as pilot:
        feed(app, HEALTHY)
        await pilot.press("5")
        await pilot.pause()
        assert "recover was interrupted: run `ork board resume` (v)" in text_of(app).splitlines()[1]
        told.clear()
        await pilot.press("v")
        await until(pilot, idle(app))
        await until(pilot, lambda: "interrupted: run" not in text_of(app))
        assert "nothing changes before it is confirmed" in text_of(app)
